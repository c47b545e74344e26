"""Transcripts to ids and back: words, characters, or SentencePiece's pieces. Id 0 is the blank of CTC."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole
from flax_transformer.common.json_text import parse_json
from flax_transformer.tasks.speech.config import UnitConfig
from flax_transformer.tasks.speech.ctc import BLANK_ID
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, kind_of

_PLAIN = {'words': ' ', 'characters': ''}  # what joins the units
_SPACES = ' \u2581'  # how units write a space
_UNITS_FILE, _SETTINGS_FILE = 'units.json', 'lower_case.json'


class Units:
    """What transcripts are written in; `encode` gives the ids of one, `decode` its text."""

    def __init__(self, source: Sequence[str] | SentencePieceTokenizer, *, joint: str = '', lower_case: bool) -> None:
        """`joint`: what is between two units of a text, one space for words."""
        self._source, self._joint, self._lower_case = source, joint, lower_case
        self._ids = {} if isinstance(source, SentencePieceTokenizer) else {x: i + 1 for i, x in enumerate(source)}

    @classmethod
    def learn(cls, transcripts: Iterable[str], config: UnitConfig, size: int) -> 'Units':
        """The units of transcripts: all words or characters that occur; or at most `size` pieces."""
        texts = [_plain(text, lower_case=config.lower_case) for text in transcripts]
        if config.algorithm not in _PLAIN:
            source = SentencePieceTokenizer.train(
                texts,
                vocab_size=size,
                algorithm=config.algorithm,
                byte_fallback=False,
                character_coverage=1.0,
                pad_id=BLANK_ID,
                unk_id=1,
                eos_id=2,
            )
            return cls(source, lower_case=config.lower_case)
        joint = _PLAIN[config.algorithm]
        found = sorted({unit for text in texts for unit in _split(text, joint)})
        return cls(found, joint=joint, lower_case=config.lower_case)

    @property
    def size(self) -> int:
        """Units, the blank included."""
        source = self._source
        return source.vocab_size if isinstance(source, SentencePieceTokenizer) else len(source) + 1

    @property
    def names(self) -> list[str]:
        """Each unit as text, by id; `_` is the blank."""
        source = self._source
        if isinstance(source, SentencePieceTokenizer):
            return ['_', *(source.piece(i) for i in range(1, source.vocab_size))]
        return ['_', *source]

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides the ids."""
        source = self._source
        content = source.digest if isinstance(source, SentencePieceTokenizer) else json.dumps([self._joint, *source])
        return hashlib.sha256(f'{self._lower_case}\n{content}'.encode()).hexdigest()

    def normalized(self, text: str) -> str:
        """A transcript as it is scored: in lower case if the units are, one space between words."""
        return _plain(text, lower_case=self._lower_case)

    def encode(self, text: str) -> list[int]:
        """The ids of a transcript, without the units that training did not have."""
        text = self.normalized(text)
        if isinstance(self._source, SentencePieceTokenizer):
            unk, (ids,) = self._source.unk_id, self._source.encode([text])
            return [i for i in ids[:-1] if i != unk] if text else []  # without EOS
        return [self._ids[unit] for unit in _split(text, self._joint) if unit in self._ids]

    def unknown(self, text: str) -> set[str]:
        """The units of a transcript that training did not have; for pieces, its characters."""
        text = self.normalized(text)
        if isinstance(self._source, SentencePieceTokenizer):
            return {c for c in text if c != ' ' and not self._source.has_piece_for(c)}
        return {unit for unit in _split(text, self._joint) if unit not in self._ids}

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids without blanks."""
        source = self._source
        if isinstance(source, SentencePieceTokenizer):
            return source.decode(ids).strip()
        return ' '.join(self._joint.join(source[i - 1] for i in ids).split())

    def word_numbers(self, ids: Sequence[int]) -> list[int]:
        """For each id, the number of the word of `decode(ids)` that it belongs to; -1 for a space."""
        if self._joint:
            return list(range(len(ids)))
        numbers, words, is_inside = [], 0, False
        for name in map(self.names.__getitem__, ids):
            letters = name.strip(_SPACES)
            if letters and (not is_inside or name[0] in _SPACES):
                words += 1
            is_inside = bool(letters)
            numbers.append(words - 1 if letters else -1)
        return numbers

    def save(self, folder: Path) -> None:
        """Writes the units into a folder, their description last."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _SETTINGS_FILE, json.dumps(self._lower_case) + '\n')
        if isinstance(self._source, SentencePieceTokenizer):
            self._source.save(folder)
            return
        write_whole(folder / _UNITS_FILE, json.dumps(list(self._source), ensure_ascii=False) + '\n')
        kind = next(kind for kind, joint in _PLAIN.items() if joint == self._joint)
        description = {'kind': kind, 'vocab_size': self.size, 'sha256': self.digest}
        write_whole(folder / DESCRIPTION_FILE, json.dumps(description, indent=2) + '\n')


def _plain(text: str, *, lower_case: bool) -> str:
    text = ' '.join(text.split())
    return text.lower() if lower_case else text


def _split(text: str, joint: str) -> list[str]:
    return text.split() if joint else list(text)


def load_units(folder: Path) -> Units:
    """The units that `save` wrote. Raises UserError if a file is missing or damaged."""
    kind = kind_of(folder)
    try:
        lower_case = parse_json(read_limited(folder / _SETTINGS_FILE)) is True
        if kind not in _PLAIN:
            return Units(SentencePieceTokenizer.load(folder), lower_case=lower_case)
        found = parse_json(read_limited(folder / _UNITS_FILE))
        units = Units([str(unit) for unit in found], joint=_PLAIN[kind], lower_case=lower_case)
        if units.digest == parse_json(read_limited(folder / DESCRIPTION_FILE)).get('sha256'):
            return units
    except FileNotFoundError as error:
        raise UserError(f'{error.filename} is missing: a run directory keeps its units there') from None
    except UserError:
        raise
    except (ValueError, TypeError, AttributeError):
        pass
    raise UserError(f'{folder} holds damaged units; copy it from the run again')

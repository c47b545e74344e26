"""Transcripts to ids and back: words, characters, or SentencePiece's pieces. Id 0 is the blank of CTC."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from flax_transformer.common.json_text import parse_json
from flax_transformer.tasks.vocabulary import Vocabulary
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

from .config import UnitConfig

BLANK_ID = 0
_JOINTS = {'words': ' ', 'characters': ''}
_WORD = re.compile(r'\S+')


class Units(Vocabulary):
    first_id = 1
    file = 'units.json'
    kinds = tuple(_JOINTS)

    @classmethod
    def learn(cls, transcripts: Iterable[str], config: UnitConfig, size: int) -> 'Units':
        """All words or characters of transcripts; or at most `size` pieces."""
        texts = [_plain(text, lower_case=config.lower_case) for text in transcripts]
        if config.algorithm not in cls.kinds:
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
        units = sorted({unit for text in texts for unit in _split(text, _JOINTS[config.algorithm])})
        return cls(units, kind=config.algorithm, lower_case=config.lower_case)

    @property
    def joint(self) -> str:
        return '' if self.pieces else _JOINTS[self.kind]

    @property
    def names(self) -> list[str]:
        """Each unit as text, by id; `_` is the blank."""
        return ['_', *([self.pieces.piece(i) for i in range(1, self.size)] if self.pieces else self.units)]

    def normalized(self, text: str) -> str:
        return _plain(text, lower_case=self.lower_case)

    def encode(self, text: str) -> list[int]:
        text = self.normalized(text)
        if self.pieces:
            (ids,) = self.pieces.encode([text]) if text else ([],)
            return [i for i in ids[:-1] if i != self.pieces.unk_id]  # EOS is left out
        return [self.ids[unit] for unit in _split(text, self.joint) if unit in self.ids]

    def unknown(self, text: str) -> set[str]:
        """The units of a transcript that training did not have; for pieces, its characters."""
        text = self.normalized(text)
        if self.pieces:
            return {c for c in text if c != ' ' and not self.pieces.has_piece_for(c)}
        return {unit for unit in _split(text, self.joint) if unit not in self.ids}

    def decode(self, ids: Sequence[int]) -> str:
        return ' '.join(word for word, _, _ in self.words(ids))

    def words(self, ids: Sequence[int]) -> list[tuple[str, int, int]]:
        """The words of ids without blanks: each one's text, and where its first and its last id are in `ids`."""
        texts = [self._texts[i] for i in ids]
        owners = [number for number, text in enumerate(texts) for _ in text]
        return [(word[0], owners[word.start()], owners[word.end() - 1]) for word in _WORD.finditer(''.join(texts))]

    @cached_property
    def _texts(self) -> list[str]:
        if self.pieces:
            pieces = [piece.replace('\u2581', ' ') for piece in self.pieces.portable().target_pieces]
            pieces[self.pieces.unk_id] = ' \u2047 '  # SentencePiece decodes it so
            return pieces
        return ['', *(unit + self.joint for unit in self.units)]

    def hashed(self) -> str:
        return json.dumps([self.joint, *self.units])

    def written(self) -> str:
        return json.dumps(self.units, ensure_ascii=False) + '\n'

    @staticmethod
    def read(text: str) -> list[str]:
        return [str(unit) for unit in parse_json(text)]


def _plain(text: str, *, lower_case: bool) -> str:
    text = ' '.join(text.split())
    return text.lower() if lower_case else text


def _split(text: str, joint: str) -> list[str]:
    return text.split() if joint else list(text)

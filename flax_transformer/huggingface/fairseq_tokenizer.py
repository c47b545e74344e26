"""The tokenizers of NLLB-200, M2M-100 and mBART-50, which give the ids of those in transformers.

They have one SentencePiece model, fairseq's ids and a tag for each language: sources are `[language] text </s>`, or
`text </s> [language]` as in older versions of NLLB, and targets begin with their language.
"""

import copy
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import sentencepiece

from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.common.files import naming_damage, read_limited
from flax_transformer.text.languages import UNDETERMINED, known_language
from flax_transformer.text.sentencepiece_model import open_model, read_model
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, Portable, Tokenizer, write_files
from flax_transformer.text.vocabulary_change import learn_pieces, used_pieces, with_pieces

from .settings import read_object, unexpected
from .tokenizer_files import SETTINGS_FILE, VOCABULARY_FILE, content_of, one_line, read_vocabulary
from .tokenizer_json import LARGEST, read_sentencepiece

MODEL_FILE = 'sentencepiece.bpe.model'
# The languages of a tokenizer, in the order of their ids.
LANGUAGES: dict[str, list[str]] = json.loads(Path(__file__).with_name('languages.json').read_text())
_JSON_FILE = 'tokenizer.json'
_FIRST = ('<s>', '<pad>', '</s>', '<unk>')  # ids 0 to 3
_MADE_UP = 8  # M2M-100 has so many words after the languages
# Files of transformers' tokenizers that are handed on unread; and their names in a run, which has a tokenizer.json.
_HANDED_ON = {_JSON_FILE: 'fast_tokenizer.json', 'special_tokens_map.json': 'special_tokens_map.json'}


class FairseqTokenizer(Tokenizer):
    """The tokenizers that transformers calls NllbTokenizer, M2M100Tokenizer and MBart50Tokenizer."""

    pad_id = 1
    eos_id = 2
    unk_id = 3
    tags_to_ban = ()  # an imported model bans what its own settings ban

    def __init__(
        self,
        model: bytes,
        vocabulary: dict[str, int] | None,
        settings: dict[str, Any],
        rows: int,
        handed_on: dict[str, bytes] | None = None,
    ) -> None:
        """Sources are in the settings' `src_lang`, or in English.

        Args:
          vocabulary: id by piece, of M2M-100; None: SentencePiece's ids + 1.
          rows: ids that the model has rows for; the last of them may have no piece.
          handed_on: transformers' files by name, written back unread.
        """
        self.settings = settings
        self._handed_on = handed_on or {}
        self.vocab_size = self.target_vocab_size = rows
        self._model = model
        self._vocabulary = vocabulary
        self._processor = processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
        ids = vocabulary
        if ids is None:
            ids = {piece: i for i, piece in enumerate([*_FIRST, *pieces[3:]])}
        self._ids = np.array([ids.get(piece, self.unk_id) for piece in pieces], np.int32)
        self._ids[processor.unk_id()] = self.unk_id
        self._pieces = {id_: piece for piece, id_ in ids.items()}
        self.languages = _languages(settings, len(ids))
        self._pieces |= {id_: code for code, id_ in self.languages.items()}
        self._text_ids = {id_: i for i, id_ in enumerate(self._ids.tolist()) if id_ > self.unk_id}
        self.source_language = known_language('src_lang', str(settings.get('src_lang') or 'en'), self.languages)

    @classmethod
    def load(cls, folder: Path, rows: int | None = None, kind: str = '') -> 'FairseqTokenizer':
        """The tokenizer in a folder that `save_pretrained` (with the model's `rows`) or `save` wrote.

        `kind` is its class in transformers, if tokenizer_config.json does not say.
        """
        settings = read_object(folder / SETTINGS_FILE)
        kind = str(settings.get('tokenizer_class', kind)).removesuffix('Fast')
        has_vocabulary = kind == 'M2M100Tokenizer'
        needed = [MODEL_FILE, VOCABULARY_FILE] if has_vocabulary else [MODEL_FILE]
        if rows and not has_vocabulary and not (folder / MODEL_FILE).is_file() and (folder / _JSON_FILE).is_file():
            needed = []  # transformers 5 saves no SentencePiece model
        faults = [f'{name} is missing' for name in needed if not (folder / name).is_file()]
        if kind not in LANGUAGES:
            faults.append(f'tokenizer_class={kind!r}: expected one of {", ".join(LANGUAGES)}')
        expected = {'sp_model_kwargs': [{}]}
        if has_vocabulary:
            expected |= {'language_codes': ['m2m100'], 'num_madeup_words': [_MADE_UP]}
        faults += unexpected(settings, expected)
        refuse_faults(f'{folder}: the tokenizer cannot be read:', faults)

        homes = {name: folder / (name if rows else own) for name, own in _HANDED_ON.items()}
        handed_on = {name: read_limited(home, LARGEST) for name, home in homes.items() if home.is_file()}
        rows = rows or read_object(folder / DESCRIPTION_FILE).get('vocab_size')
        if type(rows) is not int:
            raise UserError(f'{folder / DESCRIPTION_FILE} is damaged: vocab_size={rows!r}, expected a number')
        file = folder / (needed or [_JSON_FILE])[0]
        with naming_damage(file, 'copy it again'):
            if needed:
                model = read_model(file)
            else:
                model, settings['added_tokens_decoder'] = read_sentencepiece(file, first=(3, 0, 2))
            open_model(model)
        vocabulary = read_vocabulary(folder / VOCABULARY_FILE) if has_vocabulary else None
        if vocabulary is not None and [vocabulary.get(piece) for piece in _FIRST] != [0, 1, 2, 3]:
            raise UserError(f'{folder / VOCABULARY_FILE}: expected {", ".join(_FIRST)} as the ids 0 to 3')

        with naming_damage(folder / SETTINGS_FILE, 'copy it again'):
            tokenizer = cls(model, vocabulary, settings | {'tokenizer_class': kind}, rows, handed_on)
            last = max(tokenizer.languages.values())
            if min(tokenizer.languages.values()) <= cls.unk_id:
                raise ValueError('a language has the id of another token')
        if last >= rows:
            raise UserError(f'{folder}: the tokenizer has ids up to {last}, and the model {rows} rows')
        return tokenizer

    def save(self, folder: Path) -> None:
        handed_on = {_HANDED_ON[name]: content for name, content in self._handed_on.items()}
        description = {'kind': 'fairseq', 'vocab_size': self.vocab_size}
        write_files(folder, self._files | handed_on | {DESCRIPTION_FILE: description})

    def write(self, folder: Path) -> None:
        write_files(folder, self._files | self._handed_on)

    @property
    def _files(self) -> dict[str, Any]:
        files = {MODEL_FILE: self._model, SETTINGS_FILE: self._own_settings}
        return files if self._vocabulary is None else files | {VOCABULARY_FILE: self._vocabulary}

    @property
    def _own_settings(self) -> dict[str, Any]:
        return self.settings | {'src_lang': self.source_language}

    @cached_property
    def digest(self) -> str:
        parts = json.dumps([self._vocabulary, self._own_settings, self.vocab_size], sort_keys=True)
        return hashlib.sha256(self._model + parts.encode()).hexdigest()

    def reading(self, language: str) -> 'FairseqTokenizer':
        other = copy.copy(self)
        other.__dict__.pop('digest', None)
        other.source_language = known_language('source_language', language, self.languages)
        return other

    def tag_id(self, language: str | None) -> int | None:
        self.first_id(language)
        return None

    def first_id(self, language: str | None) -> int | None:
        if language is None:
            known = ', '.join(self.languages)
            raise UserError(
                f'target_language=None: give --to and one of {known}; to train, also set data.language_tags'
            )
        return self.languages[known_language('target_language', language, self.languages)]

    def default_language(self, language: str) -> str | None:
        return None if language == UNDETERMINED else language

    def portable(self) -> Portable:
        raise UserError('a tokenizer whose targets begin with the tag of their language is not portable')

    def piece(self, token_id: int) -> str:
        return self._pieces.get(int(token_id), _FIRST[self.unk_id])

    source_piece = piece

    def fewer(self, lines: Sequence[str], languages: Sequence[str]) -> Self:
        changed = with_pieces(self._model, used_pieces(self._model, lines))
        return self._with(*changed, [code for code in self.languages if code in languages])

    def more(self, language: str, lines: Sequence[str], count: int) -> tuple[Self, dict[str, Any]]:
        new = {piece.piece: piece for piece in learn_pieces(self._model, lines, count)}
        changed = with_pieces(self._model, range(len(self._ids)), new.values())
        codes = [*self.languages, language]
        return self._with(*changed, codes, new), {piece: parts for piece, _, parts in new.values()}

    def _with(self, model: bytes, pieces: list[str], codes: list[str], new: Iterable[str] = ()) -> Self:
        """With another SentencePiece model and these languages."""
        pieces = [*_FIRST, *pieces[3:]]
        vocabulary = None
        if self._vocabulary is not None:
            pieces = [*_FIRST, *(piece for piece in pieces[4:] if piece in self._vocabulary or piece in new)]
            vocabulary = {piece: i for i, piece in enumerate(pieces)}
        tokens = enumerate(codes, start=len(pieces))
        settings = {name: value for name, value in self.settings.items() if not name.endswith('_special_tokens')}
        settings['added_tokens_decoder'] = {str(id_): {'content': text, 'special': True} for id_, text in tokens}
        settings['src_lang'] = self.source_language if self.source_language in codes else codes[0]
        return type(self)(model, vocabulary, settings, len(pieces) + len(codes))

    def has_piece_for(self, character: str) -> bool:
        return self.unk_id not in self._encode([character])[0]

    def encode(self, lines: Sequence[str], *, target_language: str | None = None) -> list[list[int]]:
        tag = self.languages[self.source_language]
        if self.settings.get('legacy_behaviour'):
            return [[*ids, self.eos_id, tag] for ids in self._encode(lines)]
        return [[tag, *ids, self.eos_id] for ids in self._encode(lines)]

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*ids, self.eos_id] for ids in self._encode(lines)]

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        texts = [line.encode('utf-8', 'replace').decode('utf-8') for line in lines]
        return [self._ids[ids].tolist() for ids in self._processor.encode(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        known = [self._text_ids[id_] for id_ in map(int, ids) if id_ in self._text_ids]
        return one_line(self._processor.decode(known))


def _languages(settings: dict[str, Any], first_id: int) -> dict[str, int]:
    """The ids of languages, which transformers lists among the added tokens, or else follow the pieces in order."""
    added = {content_of(token).strip('_'): int(id_) for id_, token in settings.get('added_tokens_decoder', {}).items()}
    codes = LANGUAGES[settings['tokenizer_class']]
    numbered = {} if added.keys() & {*codes} else {code: first_id + i for i, code in enumerate(codes)}
    return numbered | {code: id_ for code, id_ in added.items() if not code.startswith('<')}

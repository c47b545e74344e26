"""The tokenizers of NLLB-200, M2M-100 and mBART-50: one SentencePiece model, fairseq's ids, a tag for each language.

Sources are `[language] text </s>`, or `text </s> [language]` as in older versions of NLLB; targets begin with the
language that is translated into. Special pieces spelled out in a line are text here.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, read_limited
from flax_transformer.text.languages import known_language
from flax_transformer.text.sentencepiece_model import open_model, read_model
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, Portable, Tokenizer, write_files

from .families import LANGUAGES
from .settings import read_object, unexpected
from .tokenizer import SETTINGS_FILE, VOCABULARY_FILE, read_vocabulary

MODEL_FILE = 'sentencepiece.bpe.model'
KIND = 'fairseq'
_LARGEST = 200_000_000  # bytes
_SPECIALS = ('<s>', '<pad>', '</s>', '<unk>')  # ids 0 to 3
_MADE_UP = 8  # M2M-100 has so many words after the languages
# Files of transformers' tokenizers that are handed on unread; and their names in a run, which has a tokenizer.json.
_HANDED_ON = {'tokenizer.json': 'fast_tokenizer.json', 'special_tokens_map.json': 'special_tokens_map.json'}


class FairseqTokenizer(Tokenizer):
    """A Tokenizer that gives the ids of NllbTokenizer, M2M100Tokenizer or MBart50Tokenizer in transformers."""

    pad_id, eos_id, unk_id = 1, 2, 3
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
          model: SentencePiece's.
          vocabulary: id by piece, of M2M-100; None: SentencePiece's ids + 1.
          settings: tokenizer_config.json.
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
            ids = {piece: i for i, piece in enumerate([*_SPECIALS, *pieces[3:]])}
        self._ids = np.array([ids.get(piece, self.unk_id) for piece in pieces], np.int32)
        self._ids[processor.unk_id()] = self.unk_id
        self._pieces = {id_: piece for piece, id_ in ids.items()}
        codes = LANGUAGES[settings['tokenizer_class']]
        self.languages = {code: len(ids) + i for i, code in enumerate(codes)}
        self._pieces |= {id_: code for code, id_ in self.languages.items()}
        self._text_ids = {id_: i for i, id_ in enumerate(self._ids.tolist()) if id_ > self.unk_id}
        self.source_language = known_language('src_lang', str(settings.get('src_lang') or 'en'), codes)

    @classmethod
    def load(cls, folder: Path, rows: int | None = None, kind: str = '') -> 'FairseqTokenizer':
        """The tokenizer in a folder that `save_pretrained` (with the model's `rows`) or `save` wrote.

        `kind` is its class in transformers, where tokenizer_config.json does not say. Raises UserError for missing or
        damaged files, unsupported settings, and too few rows.
        """
        settings = read_object(folder / SETTINGS_FILE)
        kind = str(settings.get('tokenizer_class', kind)).removesuffix('Fast')
        has_vocabulary = kind == 'M2M100Tokenizer'
        needed = [MODEL_FILE, VOCABULARY_FILE] if has_vocabulary else [MODEL_FILE]
        faults = [f'{name} is missing' for name in needed if not (folder / name).is_file()]
        if kind not in LANGUAGES:
            faults.append(f'tokenizer_class={kind!r}: expected one of {", ".join(LANGUAGES)}')
        expected = {'sp_model_kwargs': [{}]}
        if has_vocabulary:
            expected |= {'language_codes': ['m2m100'], 'num_madeup_words': [_MADE_UP]}
        faults += unexpected(settings, expected)
        if faults:
            raise UserError('\n  '.join([f'{folder}: the tokenizer cannot be read:', *faults]))
        homes = {name: folder / (name if rows else own) for name, own in _HANDED_ON.items()}
        handed_on = {name: read_limited(home, _LARGEST) for name, home in homes.items() if home.is_file()}
        rows = rows or read_object(folder / DESCRIPTION_FILE).get('vocab_size')
        if type(rows) is not int:
            raise UserError(f'{folder / DESCRIPTION_FILE} is damaged: vocab_size={rows!r}, expected a number')
        with naming_damage(folder / MODEL_FILE, 'copy it again'):
            model = read_model(folder / MODEL_FILE)
            open_model(model)
        vocabulary = read_vocabulary(folder / VOCABULARY_FILE) if has_vocabulary else None
        if vocabulary is not None and [vocabulary.get(piece) for piece in _SPECIALS] != [0, 1, 2, 3]:
            raise UserError(f'{folder / VOCABULARY_FILE}: expected {", ".join(_SPECIALS)} as the ids 0 to 3')
        tokenizer = cls(model, vocabulary, settings | {'tokenizer_class': kind}, rows, handed_on)
        last = max(tokenizer.languages.values())
        if last >= rows:
            raise UserError(f'{folder}: the tokenizer has ids up to {last}, and the model {rows} rows')
        return tokenizer

    def save(self, folder: Path) -> None:
        handed_on = {_HANDED_ON[name]: content for name, content in self._handed_on.items()}
        description = {'kind': KIND, 'vocab_size': self.vocab_size}
        write_files(folder, self._files | handed_on | {DESCRIPTION_FILE: description})

    def write(self, folder: Path) -> None:
        write_files(folder, self._files | self._handed_on)

    @property
    def _files(self) -> dict[str, Any]:
        """The files, by name, that save and write have in common."""
        vocabulary = {} if self._vocabulary is None else {VOCABULARY_FILE: self._vocabulary}
        settings = self.settings | {'src_lang': self.source_language}
        return {MODEL_FILE: self._model, SETTINGS_FILE: settings} | vocabulary

    @cached_property
    def digest(self) -> str:
        settings = self.settings | {'src_lang': self.source_language}
        parts = json.dumps([self._vocabulary, settings, self.vocab_size], sort_keys=True)
        return hashlib.sha256(self._model + parts.encode()).hexdigest()

    def reading(self, language: str) -> 'FairseqTokenizer':
        """The tokenizer of sources in a language. Raises UserError if there is no tag for it."""
        other = copy.copy(self)
        other.__dict__.pop('digest', None)
        other.source_language = known_language('source_language', language, self.languages)
        return other

    def tag_id(self, language: str | None) -> int | None:
        self.first_id(language)
        return None

    def first_id(self, language: str | None) -> int | None:
        """The tag of a target language. Raises UserError for a language without a tag, and for None."""
        if language is None:
            known = ', '.join(self.languages)
            raise UserError(f'target_language=None: expected one of {known}; to train, also set data.language_tags')
        return self.languages[known_language('target_language', language, self.languages)]

    def default_language(self, language: str) -> str | None:
        return language

    def portable(self) -> Portable:
        raise UserError('the tokenizer of a model whose targets begin with the tag of their language is not portable')

    def piece(self, token_id: int) -> str:
        return self._pieces.get(int(token_id), _SPECIALS[self.unk_id])

    source_piece = piece

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
        """One line of text; tags, other special pieces and ids without a piece give nothing."""
        known = [self._text_ids[id_] for id_ in map(int, ids) if id_ in self._text_ids]
        return self._processor.decode(known).replace('\u2581', ' ').replace('\n', ' ').strip()

"""Text to ids and back by SentencePiece: one joint model for both languages, all special ids explicit.

Under identity normalization every valid UTF-8 line survives the round trip, except that U+2581, which SentencePiece
uses for the space, comes back as a space. Language tags are control pieces such as `<2de>`, which no text produces.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import sentencepiece

from flax_transformer.common.errors import NoLanguages, UserError
from flax_transformer.common.files import naming_damage
from flax_transformer.common.json_text import read_json

from .languages import UNDETERMINED, known_language
from .sentencepiece_model import open_model, read_model, train_sentencepiece
from .subword_sampling import Segmenter
from .tokenizer import DESCRIPTION_FILE, MARKS, Portable, Tokenizer, flat, write_files
from .vocabulary_change import learn_pieces, used_pieces, with_pieces

MODEL_FILE = 'sentencepiece.model'
KIND = 'sentencepiece'


class SentencePieceTokenizer(Tokenizer):
    """A Tokenizer whose two sides share one SentencePiece model."""

    def __init__(self, model: bytes) -> None:
        self.model = model  # SentencePiece's own bytes
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.pad_id = self._processor.pad_id()
        self.eos_id = self._processor.eos_id()
        self.unk_id = self._processor.unk_id()

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        return type(self), (self.model,)

    @classmethod
    def train(cls, lines: Iterable[str], **settings: Any) -> 'SentencePieceTokenizer':
        return cls(train_sentencepiece(lines, **settings))

    @classmethod
    def load(cls, folder: Path) -> 'SentencePieceTokenizer':
        file = folder / MODEL_FILE
        description = folder / DESCRIPTION_FILE
        with naming_damage(description):
            described = dict(read_json(description))
        if (kind := described.get('kind')) != KIND:
            raise UserError(f'{description}: kind is {kind!r}, expected "{KIND}"')
        with naming_damage(file):
            model = read_model(file)
            # SentencePiece loads half a model as one with half of the pieces. Earlier versions stored no checksum.
            if described.get('sha256') not in (None, hashlib.sha256(model).hexdigest()):
                raise ValueError('its checksum is another one')
            open_model(model)
            tokenizer = cls(model)
            tokenizer.encode([''])  # raises for a model without EOS
            return tokenizer

    def save(self, folder: Path) -> None:
        description = {'kind': KIND, 'vocab_size': self.vocab_size, 'sha256': self.digest}
        write_files(folder, {MODEL_FILE: self.model, DESCRIPTION_FILE: description})

    @cached_property
    def _segmenter(self) -> Segmenter:
        return Segmenter(self._processor)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.model).hexdigest()

    @property
    def vocab_size(self) -> int:
        return self._processor.vocab_size()

    target_vocab_size = vocab_size

    def portable(self) -> Portable:
        is_text = [not self._processor.is_control(i) for i in range(self.vocab_size)]
        pieces = [self.piece(i) if is_text[i] else '' for i in range(self.vocab_size)]
        ids = {piece: i for i, piece in enumerate(pieces) if is_text[i] and i != self.unk_id}
        return Portable(self.model, self.model, ids, pieces)

    @cached_property
    def languages(self) -> dict[str, int]:
        ids = {}
        for token_id in filter(self._processor.is_control, range(self.vocab_size)):
            if tag := re.fullmatch(r'<2(.+)>', self.piece(token_id)):
                ids[tag[1]] = token_id
        return ids

    def tag_id(self, language: str | None) -> int | None:
        if language in self.languages or not (language or self.languages):
            return self.languages.get(language)
        if not self.languages:
            raise NoLanguages(f'target_language={language!r}: this model has no language tags; leave it out')
        return self.languages[known_language('target_language', language, self.languages)]

    def beginning(self, language: str | None) -> list[int]:
        tag = super().beginning(language)
        if not any(map(self._processor.get_score, tag)):
            return tag
        return [self._processor.piece_to_id('▁'), *tag]  # see huggingface/spiece.py

    def default_language(self, language: str) -> str | None:
        return language if self.languages and language != UNDETERMINED else None

    @property
    def tags_to_ban(self) -> tuple[int, ...]:
        return *self.languages.values(), *self.marks  # they belong to the source alone

    @cached_property
    def marks(self) -> tuple[int, ...]:
        ids = tuple(map(self._processor.piece_to_id, MARKS))
        return ids if all(map(self._processor.is_control, ids)) else ()

    def piece(self, token_id: int) -> str:
        return self._processor.id_to_piece(int(token_id))

    source_piece = piece

    def encode(self, lines: Sequence[str], *, target_language: str | None = None) -> list[list[int]]:
        # Not a list at once, for which SentencePiece starts threads: they cost as much as 40 lines.
        ids = [self._processor.encode(line.encode('utf-8', 'replace').decode(), add_eos=True) for line in lines]
        if target_language is None:
            return ids
        beginning = self.beginning(target_language)
        return [[*beginning, *line] for line in ids]

    def encode_flat(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        texts = [line.encode('utf-8', 'replace') for line in lines]
        return flat(self._processor.encode(texts, add_eos=True, num_threads=os.cpu_count() or 1))

    encode_target_flat = encode_flat

    def sample_flat(self, lines: Sequence[str], *, seeds: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = self._segmenter.sample(lines, seeds=seeds, alpha=alpha)
        return np.insert(ids, np.cumsum(lengths), self.eos_id), lengths + 1

    def fewer(self, lines: Sequence[str], languages: Sequence[str]) -> Self:
        dropped = {i for code, i in self.languages.items() if code not in languages}
        kept = [i for i in used_pieces(self.model, lines) if i not in dropped]
        return type(self)(with_pieces(self.model, kept)[0])

    def more(self, language: str, lines: Sequence[str], count: int) -> tuple[Self, dict[str, Any]]:
        if not self.languages:
            return super().more(language, lines, count)
        new = learn_pieces(self.model, lines, count)
        model, _ = with_pieces(self.model, range(self.vocab_size), new, [f'<2{language}>'])
        return type(self)(model), {piece.piece: piece.parts for piece in new}

    def has_piece_for(self, character: str) -> bool:
        """True if a character becomes neither bytes nor unk; one that normalization removes does not."""
        ids = self._processor.encode(character)
        return not any(i == self.unk_id or self._processor.is_byte(i) for i in ids)

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        return self.encode(lines)

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.decode([int(i) for i in ids]).replace('\n', ' ')

"""Translators without a model, for what is around the translation."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from flax_transformer.cli import translate
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.tasks.translation.inference.aside import translate_aside
from flax_transformer.tasks.translation.inference.literals import Literals
from flax_transformer.tasks.translation.inference.marked import Marked
from flax_transformer.tasks.translation.inference.result import Translation


def translate_by(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the command `translate` use this in place of a model."""
    monkeypatch.setattr(translate, 'open_translator', lambda runs, options: translator)
    monkeypatch.setattr(translate, '_ready', lambda translator, *_: translator)


class Ascii:
    """What literals ask of a tokenizer: whether it has a piece for a character, and how many pieces words have."""

    languages = ('deu',)

    def has_piece_for(self, character: str) -> bool:
        return character.isascii()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*map(ord, line), 0] for line in lines]


class Shuffling:
    """Writes words in capitals and in another order, and aligns them; some are lost, said twice or not aligned."""

    source_language = 'in'
    target_language: str | None = None

    def __init__(self, seed: int = 0, changes: float = 0.2) -> None:
        self.decoding, self._random, self._changes = DecodingConfig(), random.Random(seed), changes
        self.asked: list[str] = []

    def __call__(self, lines: Sequence[str | Marked], **options: Any) -> list[Translation]:
        return translate_aside(self._translated, lines, mark=Literals(Ascii(), 'en', self.decoding).mark, **options)

    def _translated(self, lines: Sequence[str], *, alignment: Sequence[bool], **_: Any) -> list[Translation]:
        self.asked += lines
        return list(map(self._translate, lines, alignment))

    def _translate(self, line: str, alignment: bool) -> Translation:
        words, draw = list(enumerate(line.split())), self._random.random
        if draw() < 2 * self._changes:
            self._random.shuffle(words)
        words = [
            word for word in words for _ in range(0 if draw() < self._changes / 4 else 1 + (draw() < self._changes / 4))
        ]
        links = tuple((source, i) for i, (source, _) in enumerate(words) if draw() > self._changes)
        text = ' '.join(word.upper() for _, word in words)
        return Translation(text, -1.0, -1.0, len(words), alignment=links if alignment else None)

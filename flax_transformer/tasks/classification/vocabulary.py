"""Text to ids for classifiers: words, or SentencePiece's pieces."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from flax_transformer.tasks import vocabulary
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

from .config import VocabularyConfig

PAD_ID, UNK_ID = 0, 1
EDGE = '\t'  # marks the ends of a word in its sequences of characters, and begins each of them, as no word does
# What may be punctuation or a symbol, except within a number or a word. Marks and joiners match too; they stay.
_SIGN = re.compile(r"(?<=\d)[.,:/](?=\d)|(?<=\w)['’-](?=\w)|(([^\w\s])\2*)")


class Vocabulary(vocabulary.Vocabulary):
    """The words, or pieces, that a classifier knows.

    Sequences of characters are the last units; their ids are negative, and count from the end.
    """

    first_id = 2
    file = 'words.txt'
    kinds = ('words', 'words_and_punctuation')

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sequences = {unit: self.ids[unit] - self.size for unit in self.units if unit[0] == EDGE}
        self._longest_sequence = max(map(len, self._sequences), default=0) - 1

    @classmethod
    def learn(cls, texts: Iterable[str], config: VocabularyConfig, size: int) -> 'Vocabulary':
        """The most frequent words and n-grams of texts, at most `size` with pad and unk; or pieces."""
        texts = [text.lower() if config.lower_case else text for text in texts]
        if config.algorithm not in cls.kinds:
            made = SentencePieceTokenizer.train(
                texts, vocab_size=size, algorithm=config.algorithm, pad_id=PAD_ID, unk_id=UNK_ID, eos_id=2
            )
            return cls(made, lower_case=config.lower_case)
        counts: Counter[str] = Counter()
        for text in texts:
            words = _SPLITS[config.algorithm](text)
            counts.update(_ngrams(words, config.ngrams))
            for word in words if config.characters else ():
                counts.update(_sequences(word, config.characters))
        words = sorted(counts, key=lambda word: (-counts[word], word))
        words = [word for word in words if counts[word] >= config.min_count][: size - cls.first_id]
        words = [word for word in words if word[0] != EDGE] + [word for word in words if word[0] == EDGE]
        return cls(words, kind=config.algorithm, lower_case=config.lower_case)

    @cached_property
    def _longest(self) -> int:
        return 1 + max((word.count(' ') for word in self.units), default=0)

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text; none for one without a word. An n-gram that is not in the vocabulary has none."""
        texts = [text.lower() if self.lower_case else text for text in texts]
        if self.pieces:
            ids = self.pieces.encode(texts)
            return [own[:-1] if text.strip() else [] for own, text in zip(ids, texts, strict=True)]  # EOS is left out
        split = _SPLITS[self.kind]
        return [self._encoded(split(text)) for text in texts]

    def _encoded(self, words: list[str]) -> list[int]:
        ids = [self.ids.get(word, None if ' ' in word else UNK_ID) for word in _ngrams(words, self._longest)]
        if self._sequences:
            ids += [self._sequences.get(unit) for word in words for unit in _sequences(word, self._longest_sequence)]
        return [i for i in ids if i is not None]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words or pieces of ids; what the classifier does not know is `<unk>`."""
        if self.pieces:
            return [self.pieces.piece(i) for i in ids]
        names = ('<pad>', '<unk>', *self.units)
        return [names[i].replace(EDGE, '_') for i in ids]

    def hashed(self) -> str:
        return '\n'.join(self.units if self.kind == 'words' else (self.kind, *self.units))

    def written(self) -> str:
        return ''.join(f'{word}\n' for word in self.units)

    @staticmethod
    def read(text: str) -> list[str]:
        return text.split('\n')[:-1]


def words_and_punctuation(text: str) -> list[str]:
    """The words of a text, and the punctuation and symbols outside of words; equal signs in a row are one.

    >>> words_and_punctuation("Aspen? Isn't it well-known? $1,000.50...")
    ['Aspen', '?', "Isn't", 'it', 'well-known', '?', '$', '1,000.50', '...']
    """
    return _SIGN.sub(_set_apart, text).split()


def _set_apart(match: re.Match[str]) -> str:
    is_sign = match[2] and unicodedata.category(match[2])[0] in 'PS'
    return f' {match[1]} ' if is_sign else match[0]


_SPLITS = {'words': str.split, 'words_and_punctuation': words_and_punctuation}


def padded(ids: Sequence[Sequence[int]], slots: int) -> np.ndarray:
    """Ids as [N, slots] int32; what is longer is cut."""
    out = np.full((len(ids), slots), PAD_ID, np.int32)
    for row, text in zip(out, ids, strict=True):
        row[: len(text)] = text[:slots]
    return out


def _ngrams(words: list[str], longest: int) -> list[str]:
    """The words, each followed by the n-grams that end with it: a, b, 'a b', c, 'b c', 'a b c' for longest = 3."""
    if longest == 1:
        return words
    ends = range(1, len(words) + 1)
    return [' '.join(words[end - n : end]) for end in ends for n in range(1, min(longest, end) + 1)]


def _sequences(word: str, longest: int) -> list[str]:
    """The sequences of 3 to `longest` characters of a word; of `is`, with `_` for EDGE: `__is`, `_is_`, `__is_`."""
    word = f'{EDGE}{word}{EDGE}'
    lengths = range(3, min(longest, len(word)) + 1)
    return [EDGE + word[start : start + n] for n in lengths for start in range(len(word) - n + 1)]

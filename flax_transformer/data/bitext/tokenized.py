"""Sentence pairs as ids: flat arrays with offsets, in memory or mapped from disk."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flax_transformer.text.tokenizer import Tokenizer

from .corpus import Pairs


class Side(NamedTuple):
    """Sentences of one language: sentence i is ids[offsets[i]:offsets[i + 1]], EOS last."""

    ids: np.ndarray  # [tokens] integers
    offsets: np.ndarray  # [sentences + 1] int64

    @property
    def lengths(self) -> np.ndarray:
        """[sentences] tokens. In memory, so not for a corpus larger than that."""
        return np.diff(self.offsets)

    def sentence(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices: np.ndarray) -> 'Side':
        """A copy of these sentences, in this order."""
        begins = self.offsets[indices]
        lengths = self.offsets[indices + 1] - begins
        return Side(self.ids[spans(begins, lengths)], offsets(lengths))


def joined(sides: Sequence[Side]) -> Side:
    if len(sides) == 1:
        return sides[0]
    lengths = np.concatenate([side.lengths for side in sides])
    return Side(np.concatenate([side.ids for side in sides]), offsets(lengths))


@dataclass(frozen=True)
class TokenizedPairs:
    """The pairs to train or evaluate on, and how many were left out."""

    source: Side
    target: Side
    num_blank: int = 0  # pairs with an empty side
    num_too_long: int = 0  # pairs with a side of more tokens than a row has slots
    numbers: np.ndarray | None = None  # [pairs]: each one's number in its corpus, from 0; None: 0, 1, 2, ...
    text: tuple[Side, Side] | None = None  # UTF-8 bytes of source and target, if kept

    def __len__(self) -> int:
        return len(self.source.offsets) - 1


def tokenize(
    pairs: Pairs,
    tokenizer: Tokenizer,
    source_slots: int | None = None,
    target_slots: int | None = None,
    *,
    target_language: str | None = None,
) -> TokenizedPairs:
    """Ids of all pairs but those with a blank side or more tokens than slots; with the tag of a target language."""
    chosen = choose(pairs, tokenizer, source_slots, target_slots, tags=tags_of(tokenizer, target_language))
    return TokenizedPairs(*(Side(ids, offsets(lengths)) for ids, lengths in chosen.sides), *chosen.left_out)


class Chosen(NamedTuple):
    """The pairs of a chunk that are kept."""

    kept: np.ndarray  # [pairs] bool
    sides: tuple[tuple[np.ndarray, np.ndarray], ...]  # ids [tokens] and lengths [pairs kept] of each side
    left_out: tuple[int, int]  # how many pairs are blank, and too long


Tags = tuple[list[int], list[int]]  # what begins each source, and each target


def tags_of(tokenizer: Tokenizer, target_language: str | None) -> Tags:
    first = tokenizer.first_id(target_language)
    return tokenizer.beginning(target_language), [] if first is None else [first]


def choose(
    pairs: Pairs,
    tokenizer: Tokenizer,
    source_slots: int | None,
    target_slots: int | None,
    *,
    tags: Tags,
    sources: tuple[np.ndarray, np.ndarray] | None = None,
) -> Chosen:
    """The pairs that fit; `sources` are their ids and lengths, if known."""
    sides = [sources or tokenizer.encode_flat(pairs.sources), tokenizer.encode_target_flat(pairs.targets)]
    sides = [with_beginning(*side, tag) for side, tag in zip(sides, tags, strict=True)]
    filled = np.array([bool(s.strip() and t.strip()) for s, t in zip(pairs.sources, pairs.targets, strict=True)], bool)
    fits = np.ones(len(pairs), bool)
    for (_, lengths), slots in zip(sides, (source_slots, target_slots), strict=True):
        fits &= lengths <= (slots or lengths)
    kept = filled & fits
    return Chosen(
        kept,
        tuple((ids[np.repeat(kept, lengths)], lengths[kept]) for ids, lengths in sides),
        (int((~filled).sum()), int((filled & ~fits).sum())),
    )


def with_beginning(ids: np.ndarray, lengths: np.ndarray, beginning: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Ids [tokens] and lengths [lines] of lines that begin with some ids.

    >>> with_beginning(np.array([5, 6, 7]), np.array([2, 1]), [8, 9])[0].tolist()
    [8, 9, 5, 6, 8, 9, 7]
    """
    if not beginning:
        return ids, lengths
    places = np.repeat(offsets(lengths)[:-1], len(beginning))
    return np.insert(ids, places, beginning * len(lengths)), lengths + len(beginning)


def offsets(lengths: np.ndarray) -> np.ndarray:
    """[n] lengths -> [n + 1] int64: where each begins and the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def spans(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers of each span, one span after the other: begins [2, 7] and lengths [3, 1] -> [2, 3, 4, 7]."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - ends + lengths, lengths)


def flatten(sentences: Iterable[Sequence[int]]) -> Side:
    arrays = [np.asarray(ids, np.int32) for ids in sentences]
    return Side(np.concatenate([*arrays, np.zeros(0, np.int32)]), offsets(np.array([len(ids) for ids in arrays], int)))

"""Packing: sentence pairs side by side in rows of fixed length, planned block by block.

Which sentences share a row is a pure function of (seed, block): each block of sentences is packed by itself, and its
rows are shuffled again, or a batch would hold sentences of one length.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from flax_transformer.data.order import Order
from flax_transformer.text.subword_sampling import hashed
from flax_transformer.text.tokenizer import Tokenizer

from .tokenized import Side, TokenizedPairs, joined, offsets, spans, with_beginning


class Rows(NamedTuple):
    """Rows of sentence pairs, in flat arrays: row r holds the pairs bounds[r] to bounds[r + 1]."""

    source: Side  # ordered as the pairs are
    target: Side
    corpora: np.ndarray  # [pairs]: the number of each pair's corpus in the mixture
    indices: np.ndarray  # [pairs]: its number in the tokenized corpus
    bounds: np.ndarray  # [rows + 1]

    @property
    def count(self) -> int:
        return len(self.bounds) - 1

    def take(self, rows: np.ndarray) -> 'Rows':
        """A copy of these rows, in this order."""
        counts = np.diff(self.bounds)[rows]
        pairs = spans(self.bounds[rows], counts)
        return Rows(
            self.source.take(pairs), self.target.take(pairs), self.corpora[pairs], self.indices[pairs], offsets(counts)
        )


def join_rows(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    source, target, corpora, indices, bounds = zip(*parts, strict=True)
    counts = np.concatenate([np.diff(ends) for ends in bounds])
    return Rows(joined(source), joined(target), np.concatenate(corpora), np.concatenate(indices), offsets(counts))


def one_pair_a_row(source: Side, target: Side, corpora: np.ndarray, indices: np.ndarray) -> Rows:
    return Rows(source, target, corpora, indices, np.arange(len(corpora) + 1))


def packed(
    pairs: Rows, source_slots: int, target_slots: int, *, shuffled_by: np.random.Generator | None = None
) -> Rows:
    """Rows of one pair each put together into rows of these slots; `shuffled_by` shuffles the rows."""
    lengths = pairs.source.lengths, pairs.target.lengths
    for side, counts, slots in zip(('source', 'target'), lengths, (source_slots, target_slots), strict=True):
        if counts.max(initial=0) > slots:
            raise ValueError(f'a {side} sentence has {counts.max()} tokens; a row has {slots} slots')
    rows = pack(*lengths, source_slots, target_slots)
    if shuffled_by is not None:
        shuffled_by.shuffle(rows)
    bounds = offsets(np.fromiter(map(len, rows), np.int64, len(rows)))
    order = np.fromiter(chain.from_iterable(rows), np.int64, int(bounds[-1]))
    return pairs.take(order)._replace(bounds=bounds)


def pack(
    source_lengths: np.ndarray, target_lengths: np.ndarray, source_slots: int, target_slots: int
) -> list[list[int]]:
    """Rows of pair indices: longest first, each into the fullest row with room for it (best fit decreasing).

    The fullest row is the one with the least target slots left; of several, the one that a pair went into last.
    """
    # A pair is as long as the side that fills more of its row.
    size = np.maximum(source_lengths / source_slots, target_lengths / target_slots)
    order = np.argsort(-size, kind='stable')
    needs = source_lengths[order].tolist(), target_lengths[order].tolist()
    rows: list[list[int]] = []
    source_left: list[int] = []
    by_target_left: list[list[int]] = [[] for _ in range(target_slots + 1)]
    occupied = 0  # bit n is set if by_target_left[n] has rows: the search skips the others at once

    for pair, need_source, need_target in zip(order.tolist(), *needs, strict=True):
        left = need_target - 1
        candidates = occupied >> need_target
        while candidates:
            skipped = (candidates & -candidates).bit_length()
            candidates >>= skipped
            left += skipped
            for row in reversed(by_target_left[left]):
                if source_left[row] >= need_source:
                    by_target_left[left].remove(row)
                    break
            else:
                continue
            break
        else:
            row = len(rows)
            left = target_slots
            rows.append([])
            source_left.append(source_slots)

        if not by_target_left[left]:
            occupied &= ~(1 << left)
        rows[row].append(pair)
        source_left[row] -= need_source
        left -= need_target
        by_target_left[left].append(row)
        occupied |= 1 << left
    return rows


class Sampling(NamedTuple):
    """How segmentations are redrawn in each epoch of training."""

    tokenizer: Tokenizer
    alpha: float  # see Tokenizer.sample_flat
    tags: Sequence[list[int]]  # what each corpus's sources begin with


class PackingPlan:
    def __init__(
        self,
        corpora: Sequence[TokenizedPairs],
        order: Order,
        *,
        source_slots: int,
        target_slots: int,
        seed: int,
        sampling: Sampling | None = None,
    ) -> None:
        """With `sampling`, the corpora must keep their text."""
        self.corpora = tuple(corpora)
        self.order = order
        self._slots = (source_slots, target_slots)
        self._seed = seed
        self._sampling = sampling

    def rows(self, block: int) -> Rows:
        corpora, indices, epochs = self.order.block(block)
        parts = [(corpus, corpora == corpus) for corpus in range(len(self.corpora))]
        sides = (
            joined([self._side(side, corpus, indices[here], epochs[here]) for corpus, here in parts]) for side in (0, 1)
        )
        pairs = one_pair_a_row(*sides, corpora, indices)
        shuffle = np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, block])))
        return packed(pairs, *self._slots, shuffled_by=shuffle)

    def _side(self, side: int, corpus: int, indices: np.ndarray, epochs: np.ndarray) -> Side:
        pairs = self.corpora[corpus]
        known = (pairs.source, pairs.target)[side].take(indices)
        if self._sampling is None:
            return known
        drawn = self._drawn(side, corpus, indices, epochs)
        # A segmentation that does not fit the row is replaced by the usual one: no sentence may be lost.
        fits = drawn.lengths <= self._slots[side]
        return joined([drawn, known]).take(np.arange(len(fits)) + np.where(fits, 0, len(fits)))

    def _drawn(self, side: int, corpus: int, indices: np.ndarray, epochs: np.ndarray) -> Side:
        """Segmentations of one side of these pairs, each a pure function of (seed, epoch, sentence)."""
        tokenizer, alpha, tags = self._sampling
        text = self.corpora[corpus].text[side].take(indices)
        encoded = text.ids.tobytes()
        lines = [encoded[begin:end].decode('utf-8') for begin, end in pairwise(text.offsets.tolist())]
        seeds = hashed(self._seed, epochs, corpus, indices, side)
        ids, lengths = tokenizer.sample_flat(lines, seeds=seeds, alpha=alpha)
        if side == 0:
            ids, lengths = with_beginning(ids, lengths, tags[corpus])
        return Side(ids, offsets(lengths))

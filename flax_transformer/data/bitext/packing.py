"""Packing: sentence pairs side by side in rows of fixed length."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from flax_transformer.data.bitext.tokenized import Side, joined, offsets, spans


class Rows(NamedTuple):
    """Rows of sentence pairs, in flat arrays: row r holds the pairs bounds[r] to bounds[r + 1]."""

    source: Side  # in the order of the pairs
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
    """The rows of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    source, target, corpora, indices, bounds = zip(*parts, strict=True)
    counts = np.concatenate([np.diff(each) for each in bounds])
    return Rows(joined(source), joined(target), np.concatenate(corpora), np.concatenate(indices), offsets(counts))


def one_pair_a_row(source: Side, target: Side, corpora: np.ndarray, indices: np.ndarray) -> Rows:
    return Rows(source, target, corpora, indices, np.arange(len(corpora) + 1))


def packed(
    pairs: Rows, source_slots: int, target_slots: int, *, shuffled_by: np.random.Generator | None = None
) -> Rows:
    """Rows of one pair each put together into rows of these slots; `shuffled_by` shuffles the rows.

    Raises ValueError if a sentence is longer than a row.
    """
    lengths = pairs.source.lengths, pairs.target.lengths
    for side, of_side, slots in zip(('source', 'target'), lengths, (source_slots, target_slots), strict=True):
        if of_side.max(initial=0) > slots:
            raise ValueError(f'a {side} sentence has {of_side.max()} tokens; a row has {slots} slots')
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
            row, left = len(rows), target_slots
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

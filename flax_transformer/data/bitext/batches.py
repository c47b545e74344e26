"""Packed batches of static shape, read by Grain: the plan says which pair goes where, the position is one integer."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import grain
import numpy as np

from flax_transformer.common.errors import UserError

from .config import DataConfig
from .packing import PackingPlan, Rows, join_rows, one_pair_a_row, packed
from .tokenized import TokenizedPairs, joined
from .workers import Workers

_MOST_ROWS = 1 << 24  # a position is block * _MOST_ROWS + row; blocks count on from epoch to epoch


class Batch(NamedTuple):
    """Rows of packed sentences, all arrays int32; R rows, S source slots, T target slots.

    Segments number the sentences of a row from 1, the same on both sides; 0 is padding, which weighs nothing.
    Positions count each sentence's tokens from 0.
    """

    source: np.ndarray  # [R, S]
    target: np.ndarray  # [R, T]
    source_segments: np.ndarray  # [R, S]
    target_segments: np.ndarray  # [R, T]
    source_positions: np.ndarray  # [R, S]
    target_positions: np.ndarray  # [R, T]
    corpora: np.ndarray | None = None  # [R, T]: the corpus of each target token; None: there is only one


def make_batch(
    rows: Rows,
    source_slots: int,
    target_slots: int,
    pad_id: int,
    *,
    num_rows: int | None = None,
    with_corpora: bool = False,
) -> Batch:
    num_rows = rows.count if num_rows is None else num_rows
    numbers = np.arange(len(rows.indices)) - np.repeat(rows.bounds[:-1], np.diff(rows.bounds)) + 1  # pairs in their row
    arrays = []
    corpora = None
    for side, slots in ((rows.source, source_slots), (rows.target, target_slots)):
        filled = np.zeros((num_rows, slots), bool)
        filled[: rows.count] = np.arange(slots) < np.diff(side.offsets[rows.bounds])[:, None]
        lengths = side.lengths
        positions = np.arange(len(side.ids)) - np.repeat(side.offsets[:-1], lengths)
        for values, empty in ((side.ids, pad_id), (np.repeat(numbers, lengths), 0), (positions, 0)):
            arrays.append(_scattered(values, filled, empty))
    if with_corpora:
        corpora = _scattered(np.repeat(rows.corpora, lengths), filled, 0)
    return Batch(*arrays[::3], *arrays[1::3], *arrays[2::3], corpora)


def _scattered(values: np.ndarray, filled: np.ndarray, empty: int) -> np.ndarray:
    out = np.full(filled.shape, empty, np.int32)
    out[filled] = values
    return out


class PackedBatches(grain.IterDataset):
    """Endless training batches: `num_rows` consecutive rows of the plan each.

    Each process plans the global batches and takes its rows, so the order does not depend on the number of processes.
    """

    def __init__(
        self,
        plan: PackingPlan,
        *,
        num_rows: int,
        source_slots: int,
        target_slots: int,
        pad_id: int,
        own_rows: np.ndarray | None = None,
        workers: int = 0,
    ) -> None:
        """`own_rows` are the rows of a global batch that this process needs; `workers` processes plan, 0: this one."""
        super().__init__()
        self.plan = plan
        self.num_rows = num_rows
        self.own_rows = own_rows
        self.workers = workers
        self._fill = (source_slots, target_slots, pad_id)

    def batch(self, rows: Rows) -> Batch:
        own = rows if self.own_rows is None else rows.take(self.own_rows)
        return make_batch(own, *self._fill, with_corpora=len(self.plan.corpora) > 1)

    def sentences(self, state: dict[str, Any]) -> list[list[int]]:
        """For each corpus, the numbers, from 1, of its sentences in the global batch at this state."""
        iterator = PackedIterator(self)
        iterator.set_state(state)
        rows = iterator.next_rows()
        sentences = []
        for number, corpus in enumerate(self.plan.corpora):
            numbers = rows.indices[rows.corpora == number]
            if corpus.numbers is not None:
                numbers = corpus.numbers[numbers]
            sentences.append(sorted((numbers + 1).tolist()))
        return sentences

    def __iter__(self) -> 'PackedIterator':
        return PackedIterator(self, workers=self.workers)


class PackedIterator(grain.DatasetIterator):
    """Reads on from a position, one integer; it also counts the sentences before it, for reports."""

    _workers: Workers | None = None

    def __init__(self, dataset: PackedBatches, workers: int = 0) -> None:
        super().__init__()
        self._dataset = dataset
        if workers:
            self._workers = Workers(dataset.plan, workers)
        self._plan = self._workers or dataset.plan
        self._position = 0
        self._sentences = 0
        self._block: tuple[int, Rows] | None = None  # the last block planned, and its rows

    def __next__(self) -> Batch:
        return self._dataset.batch(self.next_rows())

    def next_rows(self) -> Rows:
        parts = []
        missing = self._dataset.num_rows
        number, row = divmod(self._position, _MOST_ROWS)
        while missing:
            if self._block is None or self._block[0] != number:
                self._block = number, self._plan.rows(number)
            block = self._block[1]
            last = min(row + missing, block.count)
            parts.append(block.take(np.arange(row, last)))
            self._sentences = self._dataset.plan.order.sentences_before(number) + int(block.bounds[last])
            missing -= parts[-1].count
            number, row = (number + 1, 0) if last == block.count else (number, last)
        self._position = number * _MOST_ROWS + row
        return join_rows(parts)

    def get_state(self) -> dict[str, Any]:
        return {'position': self._position, 'sentences': self._sentences}

    def set_state(self, state: dict[str, Any]) -> None:
        self._position = int(state['position'])
        # Checkpoints of earlier versions lack the sentences; the count is exact again after the next batch.
        before = self._dataset.plan.order.sentences_before(self._position // _MOST_ROWS)
        self._sentences = int(state.get('sentences', before))

    def close(self) -> None:
        # Uses no global name: Python may call this after the module's are gone.
        super().close()
        if self._workers is not None:
            self._workers.close()


def loss_batches(
    corpora: Sequence[TokenizedPairs],
    model: Any,
    data: DataConfig,
    *,
    num_rows: int,
    multiple_of: int = 1,
) -> Iterator[Batch]:
    """`validation_batches` of rows as long as in training, as many as a multiple of the devices."""
    longest = max(_longest(corpora, 'source'), _longest(corpora, 'target'))
    if model.max_positions is not None and longest > model.max_positions:
        raise UserError(
            f'a sentence to evaluate on has {longest} tokens, more than the model.max_length={model.max_positions} '
            'positions that are learned; leave it out of the set'
        )
    # If a sentence needs longer rows there are fewer: a batch takes no more memory than in training.
    growth = max(longest / min(data.source_length, data.target_length), 1.0)
    num_rows = -(-max(int(num_rows / growth), 1) // multiple_of) * multiple_of
    return validation_batches(
        corpora,
        num_rows=num_rows,
        source_slots=data.source_length,
        target_slots=data.target_length,
        pad_id=model.pad_id,
    )


def validation_batches(
    corpora: Sequence[TokenizedPairs], *, num_rows: int, source_slots: int, target_slots: int, pad_id: int
) -> Iterator[Batch]:
    """Every pair once, never shuffled, in batches of one shape.

    The slots grow to hold the longest sentence, so none is left out. Empty rows fill up the last batch.
    """
    slots = max(source_slots, _longest(corpora, 'source')), max(target_slots, _longest(corpora, 'target'))
    if not sum(map(len, corpora)):
        return
    numbers = np.repeat(np.arange(len(corpora)), [len(pairs) for pairs in corpora])
    indices = np.concatenate([np.arange(len(pairs)) for pairs in corpora])
    sides = (joined([getattr(pairs, side) for pairs in corpora]) for side in ('source', 'target'))
    rows = packed(one_pair_a_row(*sides, numbers, indices), *slots)
    for first in range(0, rows.count, num_rows):
        batch = rows.take(np.arange(first, min(first + num_rows, rows.count)))
        yield make_batch(batch, *slots, pad_id, num_rows=num_rows, with_corpora=len(corpora) > 1)


def _longest(corpora: Sequence[TokenizedPairs], side: str) -> int:
    return max(int(getattr(pairs, side).lengths.max(initial=0)) for pairs in corpora)

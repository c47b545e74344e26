"""Batches to evaluate on: every pair once, in its order."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.batches import Batch, make_batch
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.packing import one_pair_a_row, packed
from flax_transformer.data.bitext.tokenized import TokenizedPairs, joined


class Limits(Protocol):
    """What batches need to know of a model's config."""

    pad_id: int

    @property
    def max_positions(self) -> int | None:
        """The longest source or target; None: any length."""


def loss_batches(
    corpora: Sequence[TokenizedPairs],
    model: Limits,
    data: DataConfig,
    *,
    num_rows: int,
    multiple_of: int = 1,
) -> Iterator[Batch]:
    """`validation_batches` of `num_rows` rows as long as in training, rounded up to a multiple of the devices.

    Raises UserError if a sentence has more tokens than there are learned positions.
    """
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
    if not corpora or not sum(map(len, corpora)):
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

"""Which sentences share a row: a pure function of (seed, block).

Each block of sentences is packed by itself, so a plan for any number of sentences is made as it is used. The rows of a
block are shuffled again, or a batch would hold sentences of one length.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from flax_transformer.common.hashing import hashed
from flax_transformer.data.bitext.packing import Rows, one_pair_a_row, packed
from flax_transformer.data.bitext.tokenized import Side, TokenizedPairs, joined, offsets
from flax_transformer.data.order import Order
from flax_transformer.text.tokenizer import Tokenizer


class Sampling(NamedTuple):
    """How segmentations are redrawn in each epoch of training."""

    tokenizer: Tokenizer
    alpha: float  # as in Tokenizer.sample_flat
    tags: Sequence[int | None]  # per corpus: what its sources begin with


class PackingPlan:
    """Rows of sentences, block by block."""

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
        self._order, self._slots, self._seed, self._sampling = order, (source_slots, target_slots), seed, sampling

    def sentences_before(self, block: int) -> int:
        """The number of sentences in all blocks before this one."""
        return self._order.sentences_before(block)

    def rows(self, block: int) -> Rows:
        """The packed rows of a block."""
        corpora, indices, epochs = self._order.block(block)
        parts = [(corpus, corpora == corpus) for corpus in range(len(self.corpora))]
        sides = (
            joined([self._side(side, corpus, indices[here], epochs[here]) for corpus, here in parts]) for side in (0, 1)
        )
        pairs = one_pair_a_row(*sides, corpora, indices)
        for corpus in self.corpora:
            corpus.release()
        shuffle = np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, block])))
        return packed(pairs, *self._slots, shuffled_by=shuffle)

    def _side(self, side: int, corpus: int, indices: np.ndarray, epochs: np.ndarray) -> Side:
        """One side of these pairs of a corpus."""
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
        ids, lengths = tokenizer.sample_flat(
            lines, seeds=hashed(self._seed, epochs, corpus, indices, side), alpha=alpha
        )
        tag = tags[corpus] if side == 0 else None
        if tag is not None:
            ids, lengths = np.insert(ids, offsets(lengths)[:-1], tag), lengths + 1
        return Side(ids, offsets(lengths))

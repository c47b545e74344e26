"""Which sentences share a row: a pure function of (seed, block).

Each block of sentences is packed by itself, so a plan for any number of sentences is made as it is used. The rows of a
block are shuffled again, or a batch would hold sentences of one length.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.data.bitext.packing import TokenPair, packed
from flax_transformer.data.bitext.tokenized import TokenizedPairs
from flax_transformer.data.order import Order
from flax_transformer.text.tokenizer import Tokenizer


class Sampling(NamedTuple):
    """How segmentations are redrawn in each epoch of training."""

    tokenizer: Tokenizer
    alpha: float  # as in Tokenizer.sample
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

    def rows(self, block: int) -> list[list[TokenPair]]:
        """The packed rows of a block."""
        pairs = [self._pair(*map(int, place)) for place in zip(*self._order.block(block), strict=True)]
        for corpus in self.corpora:
            corpus.release()
        rows = packed(pairs, *self._slots)
        np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, block]))).shuffle(rows)
        return rows

    def _pair(self, corpus: int, index: int, epoch: int) -> TokenPair:
        pairs = self.corpora[corpus]
        # Copies, so that a block does not keep pages of the corpus in memory.
        known = TokenPair(pairs.source.sentence(index).copy(), pairs.target.sentence(index).copy(), corpus, index)
        if self._sampling is None:
            return known
        drawn = (self._draw(corpus, index, epoch, side) for side in (0, 1))
        # A segmentation that does not fit the row is replaced by the usual one: no sentence may be lost.
        fitting = (
            ids if len(ids) <= slots else old for ids, old, slots in zip(drawn, known, self._slots, strict=False)
        )
        return TokenPair(*fitting, corpus, index)

    def _draw(self, corpus: int, index: int, epoch: int, side: int) -> np.ndarray:
        """A segmentation of one side of a pair: a pure function of (seed, epoch, sentence)."""
        tokenizer, alpha, tags = self._sampling
        text = self.corpora[corpus].text[side].sentence(index).tobytes().decode('utf-8')
        what = f'{self._seed} {epoch} {corpus} {index} {side}'.encode()
        seed = int.from_bytes(hashlib.blake2b(what, digest_size=4).digest()) % (2**32 - 2) + 1
        ids = tokenizer.sample(text, seed=seed, alpha=alpha)
        tag = tags[corpus] if side == 0 else None
        return np.array(ids if tag is None else [tag, *ids], np.int32)

"""The plan: which sentences lie together in which row, a pure function of (seed, block).

A block of sentences is packed by itself, so that a plan of any number of sentences is made while it is used, and its
rows are shuffled again, so that a batch does not consist of one length.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.data.bitext.cache import PreparedPairs
from flax_transformer.data.bitext.packing import pack
from flax_transformer.data.bitext.tokenized import TokenizedPairs
from flax_transformer.data.order import Order
from flax_transformer.text.tokenizer import Tokenizer


class TokenPair(NamedTuple):
    """A sentence pair as ids, EOS last."""

    source: np.ndarray
    target: np.ndarray
    corpus: int = 0  # its number in the mixture
    index: int = -1  # its number in the tokenised corpus


class Sampling(NamedTuple):
    """How segmentations are drawn anew in each epoch, on the training side alone."""

    tokenizer: Tokenizer
    alpha: float  # as in Tokenizer.sample
    tags: Sequence[int | None]  # of each corpus: what begins its sources


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
        """With `sampling` the corpora are PreparedPairs that keep their text."""
        self.corpora = tuple(corpora)
        self._order, self._slots, self._seed, self._sampling = order, (source_slots, target_slots), seed, sampling

    def rows(self, block: int) -> list[list[TokenPair]]:
        """The rows of a block: sentences that fit side by side into one row."""
        token_pairs = [self._pair(*map(int, place)) for place in zip(*self._order.block(block), strict=True)]
        for pairs in self.corpora:
            if isinstance(pairs, PreparedPairs):
                pairs.release()
        rows = packed(token_pairs, *self._slots)
        np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, block]))).shuffle(rows)
        return rows

    def _pair(self, corpus: int, index: int, epoch: int) -> TokenPair:
        pairs = self.corpora[corpus]
        # Copies: pages of the corpus are not kept for a block's lifetime.
        known = TokenPair(pairs.source.sentence(index).copy(), pairs.target.sentence(index).copy(), corpus, index)
        if self._sampling is None:
            return known
        drawn = (self._draw(corpus, index, epoch, side) for side in (0, 1))
        # Where more pieces do not fit the row the sentence comes as it is: it must not be lost.
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


def packed(token_pairs: Sequence[TokenPair], source_slots: int, target_slots: int) -> list[list[TokenPair]]:
    """Examples packed into rows."""
    lengths = [np.array([len(pair[side]) for pair in token_pairs]) for side in (0, 1)]
    for side, of_side, slots in zip(('source', 'target'), lengths, (source_slots, target_slots), strict=True):
        if of_side.max(initial=0) > slots:
            raise ValueError(f'a {side} sentence has {of_side.max()} tokens; a row has {slots} slots')
    return [[token_pairs[i] for i in row] for row in pack(*lengths, source_slots, target_slots)]

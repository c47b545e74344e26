"""Sentence pairs as ids: flat arrays with offsets, and what was left out of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flax_transformer.data.pairs import Pairs
from flax_transformer.tokenizer import Tokenizer


class Side(NamedTuple):
    """Sentences of one language: sentence i is ids[offsets[i]:offsets[i + 1]], EOS last."""

    ids: np.ndarray  # [tokens] int32
    offsets: np.ndarray  # [sentences + 1] int64

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def sentence(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True)
class TokenizedPairs:
    """What is trained on, and the pairs that are not, counted."""

    source: Side
    target: Side
    num_blank: int  # pairs with an empty side
    num_too_long: int  # pairs of which a side has more tokens than a row has slots

    def __len__(self) -> int:
        return len(self.source.offsets) - 1


def tokenize(
    pairs: Pairs, tokenizer: Tokenizer, source_slots: int | None = None, target_slots: int | None = None
) -> TokenizedPairs:
    """Ids of all pairs, without those that have a blank side or, where slots are given, more tokens than that."""
    sources, targets = tokenizer.encode(pairs.sources), tokenizer.encode_target(pairs.targets)
    kept, num_blank, num_too_long = [], 0, 0
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if not pairs.sources[i].strip() or not pairs.targets[i].strip():
            num_blank += 1
        elif len(source) > (source_slots or len(source)) or len(target) > (target_slots or len(target)):
            num_too_long += 1
        else:
            kept.append(i)
    return TokenizedPairs(flatten(sources[i] for i in kept), flatten(targets[i] for i in kept), num_blank, num_too_long)


def flatten(sentences: Iterable[Sequence[int]]) -> Side:
    """Lists of ids as one flat array with offsets."""
    arrays = [np.asarray(ids, np.int32) for ids in sentences]
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in arrays])]).astype(np.int64)
    return Side(np.concatenate([*arrays, np.zeros(0, np.int32)]), offsets)

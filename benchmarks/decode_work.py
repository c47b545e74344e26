"""The work of the decoding benchmarks, alike for everybody: sizes of models, sentences, and how long outputs are.

Only NumPy is needed. Ids: 0 padding, 1 start, 2 end, 3 unknown. Every sentence is to yield exactly `length` ids, none
of them special, so that all do the same work whatever their weights.
"""

from dataclasses import dataclass

import numpy as np

PAD, EOS, FIRST = 0, 2, 4  # from FIRST on ids are words; the last one stays free, where Marian has its padding
BUCKETS = {14: (8, 12, 16, 24, 40), 28: (16, 24, 32, 48, 64, 100)}


@dataclass(frozen=True)
class Size:
    d_model: int
    d_ff: int
    num_heads: int
    layers: int  # of each side
    vocab_size: int
    mean: int  # tokens of a source, EOS counted
    spread: float  # of the logarithm of its length
    single: int  # sentences that are translated one by one


SIZES = {
    'tiny': Size(256, 1024, 4, 3, 8000, 14, 0.33, 12),  # lengths as of Multi30k
    'base': Size(512, 2048, 8, 6, 32000, 28, 0.58, 8),  # the paper's base, lengths as of WMT
}


@dataclass(frozen=True)
class Batch:
    sources: list[np.ndarray]  # ids, EOS last
    slots: int  # that a program of static shapes pads the sources to
    length: int  # ids that every translation has

    def padded(self, slots: int | None = None) -> np.ndarray:
        """Sources [B, slots or the longest]."""
        rows = np.zeros((len(self.sources), slots or max(map(len, self.sources))), np.int32)
        for row, ids in zip(rows, self.sources, strict=True):
            row[: len(ids)] = ids
        return rows


def batches(size: Size, rows: int) -> list[Batch]:
    """Batches of `rows` sentences by length: the quantiles of a log-normal distribution, words by Zipf's law."""
    rng = np.random.default_rng(2)
    buckets = BUCKETS[size.mean]
    draws = np.exp(np.log(size.mean) - size.spread**2 / 2 + size.spread * rng.standard_normal(20_000))
    draws = np.sort(np.clip(np.rint(draws), 4, buckets[-1]).astype(int))
    count = size.single if rows == 1 else rows
    lengths = [draws[int((i + 0.5) * len(draws) / count)] for i in range(count)]
    sentences = []
    for length in lengths:
        words = size.vocab_size - 1 - FIRST
        ids = FIRST + np.minimum(np.floor(np.exp(rng.random(length) * np.log(words))).astype(np.int32) - 1, words - 1)
        ids[-1] = EOS
        sentences.append(ids)
    bucket = lambda length: next(slots for slots in buckets if length <= slots)
    groups = [sentences[i : i + rows] for i in range(0, count, rows)]
    return [
        Batch(group, bucket(max(map(len, group))), bucket(int(np.ceil(np.mean([len(ids) for ids in group])))))
        for group in groups
    ]

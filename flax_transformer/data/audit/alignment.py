"""Stretches in which each source fits the target one line before or after better than its own.

They show in what translation preserves: length, and the last punctuation mark. The log-likelihood ratio of
"shifted" against "aligned" is summed over the pairs (Page's CUSUM test, 1954): in an aligned corpus the sum keeps
falling back, in a shifted stretch it climbs by about one nat a line.
"""

import math
from typing import NamedTuple

import numpy as np

OFFSETS = (-1, 1)  # source line i belongs to target line i + offset
CERTAIN = 15.0  # nats beyond log(pairs) that a stretch must gather
CLIP = 4.0  # nats that one pair may add or subtract
FEWEST = 16  # pairs; in a smaller corpus lengths cannot be compared

_PER_OCTAVE = 16  # steps of a length in a byte: 4 % each, up to 60,000 characters


class Stretch(NamedTuple):
    """Pairs first..last whose sources belong to the target `offset` lines further on."""

    first: int
    last: int
    offset: int


def length_byte(lengths: np.ndarray) -> np.ndarray:
    """Lengths in characters as logarithms, one byte each; 0: empty."""
    return np.minimum(np.round(_PER_OCTAVE * np.log2(1 + lengths)), 255).astype(np.uint8)


def shifted_stretches(lengths: np.ndarray, ends: np.ndarray) -> list[Stretch]:
    """The stretches in which lines are shifted by one, in order.

    Args:
      lengths: [2, pairs] uint8 by `length_byte`, of sources and targets; pairs with a blank side have 0.
      ends: [2, pairs] uint8: a code of the last mark, 0 to 3.
    """
    count = lengths.shape[1]
    if count < FEWEST:
        return []
    lengths = lengths.astype(np.float32) / _PER_OCTAVE
    if lengths.std(axis=1).min() < 0.05:  # all about the same length: no evidence
        return []
    offsets = (0, *OFFSETS)
    model = max((_evidence(lengths, ends, offset) for offset in offsets), key=lambda each: each.correlation)
    ratios = {offset: model.log_ratios(lengths, ends, offset) for offset in offsets}
    # Half of what a source says about its target's length: sorted lists (consecutive numbers) fit their neighbors too.
    drift = max(0.5 * np.log(model.spread / model.deviation), 0)
    found: list[Stretch] = []
    for offset in OFFSETS:
        # Compared with the better of the others: if pairs do not fit at all, no neighbor may seem to.
        others = np.maximum(ratios[0], ratios[-offset])
        gain = np.clip(ratios[offset] - others, -CLIP, CLIP) - drift
        found += [Stretch(first, last, offset) for first, last in _climbs(gain, CERTAIN + np.log(count))]
    return sorted(found)


class _Evidence(NamedTuple):
    """How well a source predicts its target, learned with the sides at some offset."""

    correlation: float  # correlates the logarithms of lengths
    slope: float
    intercept: float
    deviation: float  # standard deviation of the target's length, given the source's
    spread: float  # the same without it
    middle: float
    ends: np.ndarray  # [2]: log-likelihood ratio of unequal and equal last marks

    def log_ratios(self, lengths: np.ndarray, ends: np.ndarray, offset: int) -> np.ndarray:
        """[pairs] log p(target | source `offset` lines before it) / p(target); 0 if there is none."""
        source, target = _at(offset, lengths)
        known = (target - self.intercept - self.slope * source) / self.deviation
        alone = (target - self.middle) / self.spread
        ratios = 0.5 * (alone**2 - known**2) + np.log(self.spread / self.deviation)
        ratios += self.ends[np.equal(*_at(offset, ends)).astype(int)]
        ratios = np.where((source > 0) & (target > 0), ratios, 0)
        # One ratio a pair; the pair at the edge has no neighbor and gets 0.
        return np.pad(ratios, (max(-offset, 0), max(offset, 0)))


def _at(offset: int, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each source, and the target `offset` lines further on, of [2, pairs]."""
    before, after = max(-offset, 0), max(offset, 0)
    count = sides.shape[1]
    return sides[0, before : count - after], sides[1, after : count - before]


def _evidence(lengths: np.ndarray, ends: np.ndarray, offset: int) -> _Evidence:
    x, y = _at(offset, lengths)
    present = (x > 0) & (y > 0)
    x, y = x[present], y[present]
    middle, spread = float(y.mean()), float(max(y.std(), 0.05))
    correlation = float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
    slope = correlation * spread / float(max(x.std(), 0.05))
    residual = y - middle - slope * (x - x.mean())
    # Robust, so that a shifted part does not change what an aligned pair looks like; at least one step of a byte.
    deviation = max(1.4826 * float(np.median(np.abs(residual - np.median(residual)))), 1 / _PER_OCTAVE)
    intercept = middle - slope * float(x.mean()) + float(np.median(residual))
    marks = [side[present] for side in _at(offset, ends)]
    return _Evidence(correlation, slope, intercept, deviation, spread, middle, _agreement(*marks))


def _agreement(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[2] log-likelihood ratios, against chance, of two last marks that differ and of two that agree."""
    shares = [np.bincount(side, minlength=4) / max(len(x), 1) for side in (x, y)]
    by_chance = float(np.clip(shares[0] @ shares[1], 0.01, 0.99))
    together = float(np.clip((np.sum(x == y) + 1) / (len(x) + 2), by_chance, 0.99))
    return np.log([(1 - together) / (1 - by_chance), together / by_chance])


def _climbs(gain: np.ndarray, least: float) -> list[tuple[int, int]]:
    """First and last index of each run whose sum reaches a peak of at least `least`, and later falls by as much."""
    found, total, peak, first, last = [], 0.0, 0.0, 0, 0
    for i, nats in enumerate([*gain.tolist(), -math.inf]):
        total += nats
        if total > peak:
            peak, last = total, i
        elif peak >= least and peak - total >= least:
            found.append((first, last))
            total = peak = 0.0
            first = i + 1
        elif total <= 0 and peak < least:
            total = peak = 0.0
            first = i + 1
    return found

"""Stretches in which each source fits the target one line before or after better than its own.

They show in the lengths, which translation preserves. The log-likelihood ratio of "shifted" against "aligned" is
summed over the pairs (Page's CUSUM test, 1954): in an aligned corpus the sum keeps falling back, in a shifted stretch
it climbs.
"""

import math
from typing import NamedTuple

import numpy as np

OFFSETS = (-1, 1)  # source line i belongs to target line i + offset
CERTAIN = 15.0  # nats beyond log(pairs) that a stretch must gather
CLIP = 4.0  # nats that one pair may add or subtract
FEWEST = 16  # pairs; in a smaller corpus lengths cannot be compared
_LEAST = 0.05  # octaves: smaller deviations of lengths are no evidence


class Stretch(NamedTuple):
    """Pairs first..last whose sources belong to the target `offset` lines further on."""

    first: int
    last: int
    offset: int


def shifted_stretches(lengths: np.ndarray) -> list[Stretch]:
    """The stretches in which lines are shifted by one, in order, of lengths in characters, [2, pairs]; 0 is blank."""
    count = lengths.shape[1]
    if count < FEWEST:
        return []
    octaves = np.log2(1 + lengths, dtype=np.float32)
    if octaves.std(axis=1).min() < _LEAST:
        return []
    fit = max((_fit(*_at(offset, octaves)) for offset in (0, *OFFSETS)), key=lambda fit: fit.correlation)
    ratios = {offset: _log_ratios(octaves, offset, fit) for offset in (0, *OFFSETS)}
    # Half of what a source says about its target's length: sorted lists (consecutive numbers) fit their neighbors too.
    drift = max(0.5 * math.log(fit.spread / fit.deviation), 0)
    stretches = []
    for offset in OFFSETS:
        # Compared with the better of the others: if pairs do not fit at all, no neighbor may seem to.
        others = np.maximum(ratios[0], ratios[-offset])
        gain = np.clip(ratios[offset] - others, -CLIP, CLIP) - drift
        stretches += [Stretch(first, last, offset) for first, last in _climbs(gain, CERTAIN + math.log(count))]
    return sorted(stretches)


class _Fit(NamedTuple):
    """How well a source predicts the length of its target, in octaves."""

    correlation: float
    slope: float
    intercept: float
    deviation: float  # the target's length varies so much, given the source's
    middle: float
    spread: float  # deviation of the target's length alone


def _at(offset: int, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each source, and the target `offset` lines further on, of [2, pairs]."""
    before = max(-offset, 0)
    after = max(offset, 0)
    count = sides.shape[1]
    return sides[0, before : count - after], sides[1, after : count - before]


def _fit(x: np.ndarray, y: np.ndarray) -> _Fit:
    present = (x > 0) & (y > 0)
    if not present.any():  # any other fit is better
        return _Fit(correlation=-1.0, slope=0.0, intercept=0.0, deviation=1.0, middle=0.0, spread=1.0)
    x = x[present]
    y = y[present]
    middle = float(y.mean())
    spread = max(float(y.std()), _LEAST)
    correlation = float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
    slope = correlation * spread / max(float(x.std()), _LEAST)
    rest = y - slope * x
    intercept = float(np.median(rest))
    # Robust, so that a shifted part does not change what an aligned pair looks like.
    deviation = max(1.4826 * float(np.median(np.abs(rest - intercept))), _LEAST)
    return _Fit(correlation, slope, intercept, deviation, middle, spread)


def _log_ratios(octaves: np.ndarray, offset: int, fit: _Fit) -> np.ndarray:
    """[pairs] log p(target | source `offset` lines before it) / p(target); 0 if there is none."""
    source, target = _at(offset, octaves)
    known = (target - fit.intercept - fit.slope * source) / fit.deviation
    alone = (target - fit.middle) / fit.spread
    ratios = 0.5 * (alone**2 - known**2) + np.log(fit.spread / fit.deviation)
    ratios = np.where((source > 0) & (target > 0), ratios, 0)
    return np.pad(ratios, (max(-offset, 0), max(offset, 0)))


def _climbs(gain: np.ndarray, least: float) -> list[tuple[int, int]]:
    """First and last index of each run whose sum reaches a peak of at least `least`, and later falls by as much."""
    climbs = []
    total = peak = 0.0
    first = last = 0
    for i, nats in enumerate([*gain.tolist(), -math.inf]):
        total += nats
        if total > peak:
            peak = total
            last = i
        has_ended = peak >= least and peak - total >= least
        if has_ended:
            climbs.append((first, last))
        if has_ended or (total <= 0 and peak < least):
            total = peak = 0.0
            first = i + 1
    return climbs

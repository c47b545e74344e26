"""Stretches in which each source fits the target one line before or after better than its own.

They show in what translation preserves: length, numbers, the last punctuation mark. The log-likelihood ratio of
"shifted" against "aligned" is summed over the pairs (Page's CUSUM test, 1954): in an aligned corpus the sum keeps
falling back, in a shifted stretch it climbs by about one nat a line.
"""

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

    def __len__(self) -> int:
        return self.last - self.first + 1


def length_byte(lengths: np.ndarray) -> np.ndarray:
    """Lengths in characters as logarithms, one byte each; 0: empty."""
    return np.minimum(np.round(_PER_OCTAVE * np.log2(1 + lengths)), 255).astype(np.uint8)


def shifted_stretches(lengths: np.ndarray, signs: np.ndarray) -> list[Stretch]:
    """The stretches in which lines are shifted by one, in order.

    Args:
      lengths: [2, pairs] uint8 by `length_byte`, of sources and targets; pairs with a blank side have 0.
      signs: [2, pairs] uint8: a code of the last mark, 0 to 3, plus 4 times a hash of the numbers, 1 to 63, 0: none.
    """
    count = lengths.shape[1]
    if count < FEWEST:
        return []
    source, target = lengths.astype(np.float32) / _PER_OCTAVE
    if source.std() < 0.05 or target.std() < 0.05:  # all about the same length: no evidence
        return []
    evidence = {offset: _evidence(source, target, signs, offset) for offset in (0, *OFFSETS)}
    best = max(evidence, key=lambda offset: evidence[offset].correlation)
    model = evidence[best]
    ratios = {offset: model.log_ratios(source, target, signs, offset) for offset in (0, *OFFSETS)}
    # Half of what a source says about its target's length: sorted lists (consecutive numbers) fit their neighbours too.
    drift = max(0.5 * np.log(model.spread / model.deviation), 0)
    found: list[Stretch] = []
    for offset in OFFSETS:
        # Compared with the better of the others: if pairs do not fit at all, no neighbour may seem to.
        others = np.maximum(ratios[0], ratios[-offset])
        gain = np.clip(ratios[offset] - others, -CLIP, CLIP) - drift
        found += [Stretch(first, last, offset) for first, last in _climbs(gain, CERTAIN + np.log(count))]
    return sorted(found)


class _Evidence(NamedTuple):
    """How well a source predicts its target, learned with the sides at some offset."""

    correlation: float  # correlates the logarithms of lengths
    slope: float
    intercept: float
    deviation: float  # the target's length varies so much given the source's
    spread: float  # the target's length varies so much by itself
    middle: float
    signs: np.ndarray  # [4, 2]: log-likelihood ratio of unequal and equal numbers (0, 1) and last signs (2, 3)

    def log_ratios(self, source: np.ndarray, target: np.ndarray, signs: np.ndarray, offset: int) -> np.ndarray:
        """[pairs] log p(target | source `offset` lines before it) / p(target); 0 if there is none."""
        source, target, source_signs, target_signs = _at(offset, source, target, *signs)
        known = (target - self.intercept - self.slope * source) / self.deviation
        alone = (target - self.middle) / self.spread
        ratios = 0.5 * (alone**2 - known**2) + np.log(self.spread / self.deviation)
        numbers = (source_signs >= 4) | (target_signs >= 4)
        ratios += np.where(numbers, self.signs[0][(source_signs // 4 == target_signs // 4).astype(int)], 0)
        ratios += self.signs[1][(source_signs % 4 == target_signs % 4).astype(int)]
        ratios = np.where((source > 0) & (target > 0), ratios, 0)
        # One ratio a pair; the pair at the edge has no neighbour and gets 0.
        return np.pad(ratios, (max(-offset, 0), max(offset, 0)))


def _at(offset: int, source: np.ndarray, target: np.ndarray, *signs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Source i next to target i + offset."""
    count = len(source)
    sources = slice(max(-offset, 0), count - max(offset, 0))
    targets = slice(max(offset, 0), count - max(-offset, 0))
    return source[sources], target[targets], signs[0][sources], signs[1][targets]


def _evidence(source: np.ndarray, target: np.ndarray, signs: np.ndarray, offset: int) -> _Evidence:
    x, y, x_signs, y_signs = _at(offset, source, target, *signs)
    present = (x > 0) & (y > 0)
    x, y, x_signs, y_signs = x[present], y[present], x_signs[present], y_signs[present]
    middle, spread = float(y.mean()), float(max(y.std(), 0.05))
    correlation = float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
    slope = correlation * spread / float(max(x.std(), 0.05))
    residual = y - middle - slope * (x - x.mean())
    # Robust, so that a shifted part does not change what an aligned pair looks like; at least one step of a byte.
    deviation = max(1.4826 * float(np.median(np.abs(residual - np.median(residual)))), 1 / _PER_OCTAVE)
    intercept = middle - slope * float(x.mean()) + float(np.median(residual))
    numbers = (x_signs >= 4) | (y_signs >= 4)
    tables = np.stack(
        [
            _table(x_signs[numbers] // 4, y_signs[numbers] // 4, 64),
            _table(x_signs % 4, y_signs % 4, 4),
        ]
    )
    return _Evidence(correlation, slope, intercept, deviation, spread, middle, tables)


def _table(x: np.ndarray, y: np.ndarray, values: int) -> np.ndarray:
    """[2] log-likelihood ratios, against chance, of two signs that differ and of two that agree."""
    total = len(x)
    shares = [np.bincount(side, minlength=values) / max(total, 1) for side in (x, y)]
    by_chance = float(np.clip(shares[0] @ shares[1], 0.01, 0.99))
    together = float(np.clip((np.sum(x == y) + 1) / (total + 2), by_chance, 0.99))
    return np.log([(1 - together) / (1 - by_chance), together / by_chance])


def _climbs(gain: np.ndarray, least: float) -> list[tuple[int, int]]:
    """First and last index of each run whose sum is a local maximum of at least `least`."""
    total = np.cumsum(gain)
    before = np.concatenate([[0.0], total[:-1]])
    lowest = np.minimum.accumulate(before)
    if (total - lowest).max(initial=0.0) < least:
        return []
    # Goes from left to right: a run ends at its peak, once the sum has fallen from there by `least`.
    found, start = [], 0
    while start < len(gain):
        height = total[start:] - np.minimum.accumulate(before[start:])
        over = np.flatnonzero(height >= least)
        if not len(over):
            break
        reached = start + int(over[0])
        first = start + int(np.argmin(before[start : reached + 1]))
        top = np.maximum.accumulate(total[reached:])
        fallen = np.flatnonzero(top - total[reached:] >= least)
        end = reached + (int(fallen[0]) if len(fallen) else len(gain) - reached - 1)
        last = reached + int(np.argmax(total[reached : end + 1]))
        found.append((first, last))
        start = end + 1
    return found

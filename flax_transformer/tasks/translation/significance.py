"""Is one system better than the other, or is it chance? Paired tests on sacreBLEU's scores; lines that changed most.

sacreBLEU's own `PairedTest` counts strictly larger differences only, so two equal outputs differ with p = 0.0001. Its
bootstrap counts one tail, which halves p, and has no interval of the difference.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError

from .metrics import SPACED, ScoreTokens, make_metrics, reference_sets

LEVEL = 0.05  # p-values below it are called significant
_TIE = 1e-9  # differences of scores (0 to 100) that are as close as this are equal but for rounding
_BLOCK = 1 << 22  # trials times lines at a time


@dataclass(frozen=True)
class Comparison:
    metric: str
    signature: str
    baseline: float
    system: float
    difference: float  # system - baseline
    low: float  # 95 % interval of the difference, by paired bootstrap resampling (Koehn 2004)
    high: float
    p_bootstrap: float
    p_randomization: float  # paired approximate randomization (Riezler and Maxwell 2005)

    def verdict(self, baseline: str, system: str) -> str:
        """What the randomization says, for a metric whose higher values are better."""
        p = f'p = {self.p_randomization:.2g}'
        if self.p_randomization >= LEVEL:
            interval = f'(95 % interval {self.low:+.2f} to {self.high:+.2f})'
            return f'no difference that this test set can show: {self.difference:+.2f} {self.metric} {interval}, {p}'
        better, low, high = (system, self.low, self.high) if self.difference > 0 else (baseline, -self.high, -self.low)
        size = f'{abs(self.difference):.2f} {self.metric} (95 % interval {low:.2f} to {high:.2f})'
        return f'{better} is better by {size}, {p}'


class ChangedLine(NamedTuple):
    index: int
    baseline: float  # chrF2 of the line alone
    system: float


def paired_tests(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str | None]],
    *,
    resamples: int = 1000,
    trials: int = 10_000,
    tokens: ScoreTokens = SPACED,
) -> list[Comparison]:
    """How probable differences of this size or larger are if the two systems are equally good.

    Both tests have two tails, and count ties. The seed is sacreBLEU's, 12345, or $SACREBLEU_SEED. Raises UserError for
    unequal numbers of lines, and for none.
    """
    references = reference_sets(references)
    for lines in (baseline, system):
        if any(len(lines) != len(theirs) for theirs in references):
            raise UserError(
                f'got {len(lines)} translations and {len(references[0])} references; expected equal numbers'
            )
    if not len(baseline):
        raise UserError('got no lines; expected at least one translation to compare')
    metrics = make_metrics(tokens, baseline, system, *references).values()
    return [_compare(metric, baseline, system, references, resamples, trials) for metric in metrics]


def changed_lines(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str] | Sequence[Sequence[str | None]]
) -> list[ChangedLine]:
    """The lines that differ, those whose chrF2 changed most first."""
    metric = make_metrics()['chrf']
    changed = []
    for i, (before, after, *theirs) in enumerate(zip(baseline, system, *reference_sets(references), strict=True)):
        if before != after:
            theirs = [reference for reference in theirs if reference is not None]
            scores = (metric.sentence_score(line, theirs).score for line in (before, after))
            changed.append(ChangedLine(i, *scores))
    return sorted(changed, key=lambda line: -abs(line.system - line.baseline))


def _compare(
    metric: Any,
    baseline: Sequence[str],
    system: Sequence[str],
    references: list[list[str]],
    resamples: int,
    trials: int,
) -> Comparison:
    ours = _statistics(metric, baseline, references)
    others = _statistics(metric, system, references)
    lines, width = ours.shape
    # Equal lines are drawn together, and exchanging equal translations changes nothing.
    kinds, counts = np.unique(np.concatenate([ours, others], axis=1), axis=0, return_counts=True)
    changes = (others - ours)[(others != ours).any(axis=1)]

    def score(sums: np.ndarray) -> Any:
        return metric._compute_score_from_stats(sums.tolist())

    def differences(count: int, size: int, draw: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Score differences [count] of random draws, each of `size` numbers, made in blocks."""
        drawn = []
        block = max(1, _BLOCK // max(size, 1))
        for first in range(0, count, block):
            pairs = zip(*draw(min(block, count - first)), strict=True)
            drawn += [score(b).score - score(a).score for a, b in pairs]
        return np.array(drawn)

    def resample(count: int) -> tuple[np.ndarray, np.ndarray]:
        sums = rng.multinomial(lines, counts / lines, count).astype(np.float64) @ kinds
        return sums[:, :width], sums[:, width:]

    def randomize(count: int) -> tuple[np.ndarray, np.ndarray]:
        """Each line's two translations, exchanged with probability 1/2."""
        moved = rng.integers(2, size=(count, len(changes)), dtype=np.uint8).astype(np.float64) @ changes
        return ours.sum(0) + moved, others.sum(0) - moved

    own = score(ours.sum(0))
    other = score(others.sum(0))
    difference = other.score - own.score
    seed = os.environ.get('SACREBLEU_SEED', '12345')
    rng = np.random.default_rng(None if seed.lower() == 'none' else int(seed))
    resampled = differences(resamples, len(kinds), resample)
    randomized = differences(trials, len(changes), randomize)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Comparison(
        metric=own.name,
        signature=str(metric.get_signature()),
        baseline=own.score,
        system=other.score,
        difference=difference,
        low=float(low),
        high=float(high),
        p_bootstrap=_p_value(resampled - difference, difference),
        p_randomization=_p_value(randomized, difference),
    )


def _statistics(metric: Any, lines: Sequence[str], references: list[list[str]]) -> np.ndarray:
    """[lines, counts]: what sacreBLEU sums over lines before it computes a score, by the methods of its own tests."""
    rows = list(zip(lines, *references, strict=True))
    numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    distinct, *theirs = map(list, zip(*numbers, strict=True))
    counted = np.array(metric._extract_corpus_statistics(distinct, theirs), np.float64)
    return counted[[numbers[row] for row in rows]]


def _p_value(drawn: np.ndarray, difference: float) -> float:
    """The share of differences at least as large in size, the observed one among them."""
    return (1 + int(np.sum(np.abs(drawn) >= abs(difference) - _TIE))) / (1 + len(drawn))

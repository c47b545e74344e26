"""Hits: threshold, average, pause; in pieces as at once; matched to words; an interval against its definition."""

import numpy as np
import pytest
from scipy import stats

from flax_transformer.tasks.evaluation import poisson_interval
from flax_transformer.tasks.trigger_word.config import HitConfig
from flax_transformer.tasks.trigger_word.detector import Hit, find_hits, matched, no_hits


def frames_of(probabilities: list[float], rule: HitConfig) -> list[int]:
    found, _ = find_hits(np.array(probabilities), no_hits(rule), rule, 1.0)
    return [round(hit.seconds) - 1 for hit in found]


@pytest.mark.parametrize(
    ('probabilities', 'average', 'pause', 'expected'),
    [
        ([0, 0.9, 0.9, 0.9, 0], 1, 0, [1]),
        ([0, 0.9, 0.9, 0.9, 0], 2, 0, [2]),  # the mean with the one before
        ([0, 0.9, 0.5, 0.9, 0], 1, 0, [1]),  # not below half of the threshold in between
        ([0, 0.9, 0.3, 0.9, 0], 1, 0, [1, 3]),
        ([0, 0.9, 0.3, 0.9, 0], 1, 3, [1]),
        ([0.9, 0, 0, 0, 0], 2, 0, []),  # before the stream is nothing
        ([0.8, 0, 0, 0, 0], 1, 0, [0]),  # reached is enough
    ],
)
def test_a_hit_needs_the_threshold_and_a_pause(
    probabilities: list[float], average: int, pause: float, expected: list[int]
) -> None:
    assert frames_of(probabilities, HitConfig(threshold=0.8, average=average, pause=pause)) == expected


def test_each_word_gets_its_first_hit_and_the_others_are_false() -> None:
    found = matched([Hit(t, 0.9) for t in (0.5, 2.1, 2.6, 6.1, 8.7)], [2.0, 5.0, 8.9])
    assert found.delays[1] is None
    np.testing.assert_allclose([found.delays[0], found.delays[2]], [0.1, -0.2])
    assert found.misses == 1
    assert [hit.seconds for hit in found.false_accepts] == [0.5, 2.6, 6.1]


def test_the_interval_of_a_rate_is_exact() -> None:
    """Its ends are the rates at which so many events, or more, have a chance of 2.5 %."""
    low, high = poisson_interval(3, 2.0)
    np.testing.assert_allclose([stats.poisson.sf(2, 2 * low), stats.poisson.cdf(3, 2 * high)], [0.025, 0.025])
    np.testing.assert_allclose(poisson_interval(0, 2.0), (0, -np.log(0.025) / 2))
    assert poisson_interval(0, 0.0) == (0, float('inf'))

"""The estimate of the time left, by a clock that only the tests move."""

import pytest

from flax_transformer.engine.monitor.progress_bar import TimeLeft


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_compiling_does_not_count_and_what_is_between_steps_does() -> None:
    clock = Clock()
    left = TimeLeft(35, 0, clock=clock)
    assert (left.phase, left()) == ('compiling', None)
    clock.now += 30  # compiling
    for step in range(1, 12):
        left.advance(step)
        assert left.phase == ''
        if step == 6:
            assert left() == pytest.approx(29 * 2)
        clock.now += 2
    left.advance(11)
    clock.now += 8  # an evaluation
    assert left() == pytest.approx(24 * 3)

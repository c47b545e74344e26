"""The estimate of the time left, by a clock that only the tests move."""

import pytest

from flax_transformer.engine.monitor.progress_bar import TimeLeft


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_compiling_does_not_count_and_evaluations_do() -> None:
    """Steps of 2 s, evaluations every 10 that take 7 s, the first 60 s since it compiles."""
    clock = Clock()
    left = TimeLeft(35, 0, every={'evaluating': 10}, clock=clock)
    assert (left.phase, left()) == ('compiling', None)
    clock.now += 30  # compiling
    for step in range(1, 36):
        left.advance(step)  # dispatched; the one before it is done
        assert left.phase == ''
        if step == 2:
            assert left() == pytest.approx(33 * 2)
        clock.now += 2
        if step % 10 == 0:
            left.enter('evaluating')
            clock.now += 60 if step == 10 else 7
            left.enter('saving')  # which no step is known to bring
            clock.now += 1
        if step == 9:
            assert left() == pytest.approx(26 * 2)
        if step == 19:
            assert left() == pytest.approx(16 * 2 + 3 * 60)  # after steps 20, 30 and 35
        if step == 29:
            assert left() == pytest.approx(6 * 2 + 2 * 7)
    assert left() == pytest.approx(0)

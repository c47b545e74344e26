"""A trace of the steps that were asked for, and of no others."""

from pathlib import Path

import jax
import pytest

from flax_transformer.engine.loop import Profiler


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(jax.profiler, 'start_trace', lambda folder: calls.append(f'start {folder.name}'))
    monkeypatch.setattr(jax.profiler, 'stop_trace', lambda: calls.append('stop'))
    return calls


def go(profiler: Profiler, calls: list[str], first: int, last: int) -> None:
    for step in range(first, last + 1):
        profiler.begin(step)
        calls.append(f'step {step}')
        profiler.end(step, {})
    profiler.close()


def test_the_steps_asked_for_are_traced(tmp_path: Path, calls: list[str]) -> None:
    said: list[str] = []
    go(Profiler(tmp_path, 3, 2, said.append), calls, 1, 6)
    assert calls == ['step 1', 'step 2', 'start profile', 'step 3', 'step 4', 'stop', 'step 5', 'step 6']
    assert said == [f'steps 3 to 4 are traced in {tmp_path / "profile"}: `tensorboard --logdir` shows them']


@pytest.mark.parametrize(('first', 'expected'), [(0, []), (6, ['start profile', 'stop']), (2, [])])
def test_a_trace_ends_with_training_and_none_begins_in_its_middle(
    first: int, expected: list[str], tmp_path: Path, calls: list[str]
) -> None:
    """From step 3 on, where an earlier start had done the steps before."""
    go(Profiler(tmp_path, first, 5, print), calls, 3, 7)
    assert [call for call in calls if not call.startswith('step')] == expected


@pytest.mark.slow
def test_jax_writes_a_trace(tmp_path: Path) -> None:
    profiler = Profiler(tmp_path, 1, 1, lambda text: None)
    profiler.begin(1)
    profiler.end(1, jax.numpy.ones(3) + 1)
    assert any(file.name.endswith('.xplane.pb') for file in (tmp_path / 'profile').rglob('*'))

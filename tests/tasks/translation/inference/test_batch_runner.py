"""Which lines share a batch, and which batches run at once."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference import batch_runner
from flax_transformer.tasks.translation.inference.batch_runner import Planned, Runner


def runner_with(monkeypatch: pytest.MonkeyPatch, cores: int) -> Runner:
    monkeypatch.setattr(batch_runner, 'num_cores', lambda: cores)
    return Runner(batch_tokens=128, max_slots=16, pad_id=0)


def test_lines_are_run_in_the_largest_batches_that_are_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    two = runner_with(monkeypatch, 2)
    assert two.sizes(16) == [1, 4, 8]
    assert [two.rows_for(count, 16) for count in (1, 2, 4, 5, 8, 9, 99)] == [1, 1, 1, 4, 4, 8, 8]
    assert [two.rows_for(count, 16, is_rare=True) for count in (1, 2, 5, 8, 9, 99)] == [1, 1, 1, 1, 8, 8]
    assert [two.rows_for(count, 128) for count in (1, 9)] == [1, 1]
    assert two.most(16) == 8  # 128 slots at once
    assert two.most(8) == 16
    assert [runner_with(monkeypatch, cores).most(1) for cores in (1, 2, 4, 64)] == [16, 32, 64, 128]
    one = runner_with(monkeypatch, 1)
    assert [one.rows_for(count, 16) for count in (1, 2, 5, 99)] == [1, 4, 8, 8]


def test_batches_run_at_once_and_their_results_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, together = runner_with(monkeypatch, 2), threading.Barrier(2)

    def run(function: Any, params: Any, columns: Any, batch: Planned, *, last: Sequence[Any]) -> list[tuple[int, Any]]:
        together.wait(10)
        if params in batch[0]:
            raise UserError('the reason')
        return [(i, -i) for i in batch[0]]

    monkeypatch.setattr(runner, 'run', run)
    finished = []
    assert runner.map(str, None, [[[1]] * 8], finished.append) == [-i for i in range(8)]
    assert finished == [4, 4]
    with pytest.raises(UserError, match='the reason'):
        runner.map(str, 0, [[[1]] * 8])

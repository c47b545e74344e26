"""The last steps of training see what eight bits leave of the matrices."""

from pathlib import Path

import jax
import numpy as np
import pytest
from test_own_update import GridTask
from tiny_translation import LOSS, fresh_params, uneven_batch
from toy_task import CircleConfig

from flax_transformer.common.errors import UserError
from flax_transformer.config import OptimizerConfig, ParallelConfig
from flax_transformer.engine.config import EngineConfig, LoopConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.launch import launch
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.task import Params, Task
from flax_transformer.engine.trainer import Trainer
from flax_transformer.ops.int8 import from_int8, to_int8


class TinyTask(Task):
    rows_per_step = 8
    counts = ('target_tokens',)
    init = staticmethod(lambda key: fresh_params())
    loss = staticmethod(LOSS)


def trained(share: float, *counts: int, of: int, scheduled: int | None = None) -> list[Params]:
    """The parameters after so many steps of those that there are, for each count in turn."""
    optimizer = OptimizerConfig(schedule='linear', learning_rate=1e-2, warmup_steps=0, schedule_steps=scheduled)
    config = EngineConfig(optimizer, LoopConfig(steps=of, int8_share=share), ParallelConfig(num_devices=1))
    trainer = Trainer(TinyTask(), config, Devices(config.parallel))
    state, found = trainer.init_state(), []
    for number in range(1, max(counts) + 1):
        state, _ = trainer.step(state, uneven_batch())
        if number in counts:
            found.append(jax.device_get(state.params))
    return found


@pytest.mark.slow
def test_eight_bits_then_change_the_loss_less() -> None:
    loss = jax.jit(lambda params: LOSS(params, uneven_batch(), None)[0])

    def change(share: float) -> float:
        (params,) = trained(share, 100, of=100)
        return float(loss(from_int8(to_int8(params))) - loss(params))

    assert abs(change(0.5)) < change(0.0)


@pytest.mark.parametrize('scheduled', [None, pytest.param(100, marks=pytest.mark.slow)])
def test_only_the_last_steps_are_others(scheduled: int | None) -> None:
    """Those of training, however long the schedule is."""
    plain, rounded = (trained(share, 2, 3, of=4, scheduled=scheduled) for share in (0.0, 0.5))
    same = [
        all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))
        for one, other in zip(plain, rounded, strict=True)
    ]
    assert same == [True, False]


def test_a_task_that_updates_its_parameters_itself_refuses_it(tmp_path: Path) -> None:
    config = CircleConfig(training=LoopConfig(steps=1, int8_share=0.5))
    with pytest.raises(UserError, match='int8_share has no effect'):
        launch(declare(GridTask), config, tmp_path)

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


def trained(share: float, *, steps: int, of: int, scheduled: int | None = None) -> Params:
    """The parameters after so many steps of those that there are."""
    optimizer = OptimizerConfig(schedule='linear', learning_rate=1e-2, warmup_steps=0, schedule_steps=scheduled)
    config = EngineConfig(optimizer, LoopConfig(steps=of, int8_share=share), ParallelConfig(num_devices=1))
    trainer = Trainer(TinyTask(), config, Devices(config.parallel))
    state = trainer.init_state()
    for _ in range(steps):
        state, _ = trainer.step(state, uneven_batch())
    return jax.device_get(state.params)


def test_eight_bits_then_change_the_loss_less() -> None:
    loss = jax.jit(lambda params: LOSS(params, uneven_batch(), None)[0])

    def change(share: float) -> float:
        params = trained(share, steps=200, of=200)
        return float(loss(from_int8(to_int8(params))) - loss(params))

    assert abs(change(0.5)) < change(0.0)


@pytest.mark.parametrize(('steps', 'scheduled', 'is_same'), [(2, None, True), (3, None, False), (3, 100, False)])
def test_only_the_last_steps_are_others(steps: int, scheduled: int | None, is_same: bool) -> None:
    """Those of training, however long the schedule is."""
    both = (trained(share, steps=steps, of=4, scheduled=scheduled) for share in (0.0, 0.5))
    plain, rounded = map(jax.tree.leaves, both)
    assert is_same == all(map(np.array_equal, plain, rounded))


def test_a_task_that_updates_its_parameters_itself_refuses_it(tmp_path: Path) -> None:
    config = CircleConfig(training=LoopConfig(steps=1, int8_share=0.5))
    with pytest.raises(UserError, match='int8_share has no effect'):
        launch(declare(GridTask), config, tmp_path)

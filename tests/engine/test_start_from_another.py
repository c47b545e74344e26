"""Starting from another run's parameters: whose they are, and for how long they stay in memory."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
from toy_runs import train_circle
from toy_task import RECIPE, CircleConfig

SHORT = replace(CircleConfig().training, steps=2, evaluate_every=1, checkpoint_every=1)


class Loaded(NamedTuple):
    config: CircleConfig
    params: Any


def test_the_other_runs_parameters_are_gone_once_training_has_begun_and_once_it_goes_on(tmp_path: Path) -> None:
    loaded: list[weakref.ref] = []
    alive: list[int] = []

    def load(reference: Path) -> Loaded:
        config = CircleConfig()
        params = jax.jit(RECIPE.trainer(config).task.init)(jax.random.key(1))
        loaded.extend(map(weakref.ref, jax.tree.leaves(params)))
        return Loaded(config, params)

    def validate(state: Any, _: Any) -> dict[str, float]:
        gc.collect()
        alive.append(sum(array() is not None for array in loaded))
        return {'loss': 1.0}

    for steps in (2, 4):
        config = CircleConfig(training=replace(SHORT, steps=steps))
        train_circle(tmp_path / 'run', config, validate, load=load, init_from=tmp_path / 'other')
    assert len(loaded) == 2  # a run that goes on does not read the other
    assert alive == [0, 0, 0, 0]

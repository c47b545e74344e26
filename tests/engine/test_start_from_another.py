"""Starting from another run's parameters: whose they are, and for how long they stay in memory."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest
from toy_runs import train_circle
from toy_task import CircleConfig

from flax_transformer.engine.runs.run_directory import LoadedRun, RunDirectory

SHORT = replace(CircleConfig().training, steps=2, evaluate_every=2, checkpoint_every=2)


@pytest.mark.slow
def test_the_other_runs_parameters_are_gone_once_training_has_begun_and_once_it_goes_on(tmp_path: Path) -> None:
    loaded: list[weakref.ref] = []
    alive: list[int] = []

    class Watched(RunDirectory):
        def loaded(self, config: CircleConfig, params: Any, scores: Any) -> LoadedRun:
            loaded.extend(map(weakref.ref, jax.tree.leaves(params)))
            return super().loaded(config, params, scores)

    def validate(state: Any, _: Any) -> dict[str, float]:
        gc.collect()
        alive.append(sum(array() is not None for array in loaded))
        return {'loss': 1.0}

    train_circle(tmp_path / 'other', CircleConfig(training=SHORT))
    for steps in (2, 4):
        config = CircleConfig(training=replace(SHORT, steps=steps, evaluate_every=1))
        train_circle(tmp_path / 'run', config, validate, run=Watched, init_from=tmp_path / 'other')
    assert len(loaded) == 2  # a run that goes on does not read the other
    assert alive == [0, 0, 0, 0, 0]

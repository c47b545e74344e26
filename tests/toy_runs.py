"""Runs of the toy task."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from toy_task import RECIPE, CircleConfig

from flax_transformer.engine import launch
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.train import Validate

CircleRun = RECIPE.run
make_trainer = RECIPE.trainer


def train_circle(
    folder: Path,
    config: CircleConfig,
    validate: Validate | None = None,
    *,
    init_from: Path | None = None,
    **own: Any,
) -> RunDirectory:
    """Trains the toy task; `own` replaces fields of its recipe."""
    recipe = replace(RECIPE, validation=lambda *_: validate, **own)
    return launch.train(recipe, config, folder, init_from=init_from)

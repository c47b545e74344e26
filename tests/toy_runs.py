"""Runs of the toy task."""

from pathlib import Path
from typing import Any

from toy_task import RECIPE, CircleConfig, CircleTask

from flax_transformer.engine.launch import launch
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.validation import Validate

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
    """Trains the toy task; `own` are fields of its recipe."""
    recipe = declare(CircleTask, validation=lambda *_: validate, **own)
    return launch(recipe, config, folder, init_from=init_from)

"""A trained model by name: `RUN`, or a checkpoint of it, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.engine.runs.averaging import named_params
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.model import parameter_shapes
from flax_transformer.tasks.trigger_word.run import Run


class LoadedRun(NamedTuple):
    """All that it takes to detect."""

    config: Config
    params: Any


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config and parameters of a run.

    Without `@which` and `step`: the best checkpoint (training.best_by), or the mean of the newest if
    training.average_last is above 1. `@average` is that mean, or the mean of all kept checkpoints.
    """
    run = Run(split_reference(reference)[0])
    config = run.read_config()
    like = parameter_shapes(config.model, config.features)
    params = named_params(reference, run, config.training, like, step=step)
    return LoadedRun(config, params)

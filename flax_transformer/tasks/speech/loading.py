"""A trained model by name: `RUN`, or a checkpoint of it, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.averaging import named_params
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.model import parameter_shapes
from flax_transformer.tasks.speech.run import Run
from flax_transformer.tasks.speech.units import Units


class LoadedRun(NamedTuple):
    """All that it takes to transcribe."""

    config: Config
    params: Any
    units: Units


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config, parameters and units of a run.

    Without `@which` and `step`: the best checkpoint (training.best_by), or the mean of the newest if
    training.average_last is above 1. `@average` is that mean, or the mean of all kept checkpoints.
    """
    run = Run(split_reference(reference)[0])
    config = run.read_config()
    like = parameter_shapes(config.model, config.features.num_mels)
    params = named_params(reference, run, config.training, like, step=step)
    units = run.read_units()
    check_units(units, config)
    return LoadedRun(config, params, units)


def check_units(units: Units, config: Config) -> None:
    """Raises UserError if the model has no logit for a unit."""
    if units.size > config.model.vocab_size:
        raise UserError(
            f'model.vocab_size={config.model.vocab_size}, but there are {units.size} units, the blank included; set '
            f'--model.vocab-size {units.size}'
        )

"""The run directory of a trigger word: what every run has."""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.engine.runs.run_directory import RunDirectory, split_reference
from flax_transformer.tasks.trigger_word.config import TriggerWordConfig


class Run(RunDirectory[TriggerWordConfig]):
    """The files of a trigger-word run, except its checkpoints."""

    config_class = TriggerWordConfig
    use = 'detect {} recording.wav'
    evaluate_on = '--data.test MANIFEST'


class LoadedRun(NamedTuple):
    """All that it takes to detect."""

    config: TriggerWordConfig
    params: Any


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config and parameters of a run; `named_params` says of which checkpoint."""
    from flax_transformer.engine.runs.averaging import named_params
    from flax_transformer.tasks.trigger_word.model import parameter_shapes

    run = Run(split_reference(reference)[0])
    config = run.read_config()
    like = parameter_shapes(config.model, config.features)
    params = named_params(reference, run, config.training, like, step=step)
    return LoadedRun(config, params)

"""The run directory of a trigger word: what every run has."""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.engine.runs.run_directory import RunDirectory

from .config import TriggerWordConfig


class Run(RunDirectory[TriggerWordConfig]):
    config_class = TriggerWordConfig
    use = 'detect {} recording.wav'
    evaluate_on = '--data.test MANIFEST'


class LoadedRun(NamedTuple):
    config: TriggerWordConfig
    params: Any


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config and parameters of a run; `load_named` chooses the checkpoint."""
    from flax_transformer.engine.runs.averaging import load_named

    from .model import init_params

    init = lambda config, key: init_params(config.model, config.features, key)
    _, config, params, _ = load_named(Run, reference, init, step=step)
    return LoadedRun(config, params)

"""The run directory of a trigger word: what every run has."""

from typing import Any

from flax_transformer.engine.runs.run_directory import RunDirectory

from .config import TriggerWordConfig


class Run(RunDirectory[TriggerWordConfig]):
    config_class = TriggerWordConfig
    use = 'detect {} recording.wav'
    evaluate_on = '--data.test MANIFEST'

    @staticmethod
    def init_params(config: TriggerWordConfig, key: Any) -> Any:
        from .model import init_params

        return init_params(config.model, config.features, key)

"""The run directory of a speech-to-text model, with its units."""

from typing import Any, NamedTuple

from flax_transformer.tasks.vocabulary import TokenizerRun

from .config import SpeechConfig
from .units import Units


class LoadedRun(NamedTuple):
    config: SpeechConfig
    params: Any
    units: Units


class Run(TokenizerRun[SpeechConfig]):
    load_tokenizer = Units.load
    config_class = SpeechConfig
    use = 'transcribe {} FILE ...'
    evaluate_on = '--test test.tsv'

    @staticmethod
    def init_params(config: SpeechConfig, key: Any) -> Any:
        from .model import init_params

        return init_params(config.model, config.features.num_mels, key)

    def loaded(self, config: SpeechConfig, params: Any, scores: Any) -> LoadedRun:
        units = self.read_tokenizer()
        units.check_fits(config.model.vocab_size)
        return LoadedRun(config, params, units)

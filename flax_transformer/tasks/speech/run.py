"""The run directory of a speech-to-text model: what every run has, and its units.

tokenizer/         the units: words, characters, or a SentencePiece model
tokenizer.sha256   their digest when the run began
"""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.tasks.vocabulary import TokenizerRun

from .config import SpeechConfig
from .units import Units


class Run(TokenizerRun[SpeechConfig]):
    load_tokenizer = Units.load
    config_class = SpeechConfig
    use = 'transcribe {} FILE ...'
    evaluate_on = '--test test.tsv'


class LoadedRun(NamedTuple):
    config: SpeechConfig
    params: Any
    units: Units


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config, parameters and units of a run; `load_named` chooses the checkpoint."""
    from flax_transformer.engine.runs.averaging import load_named

    from .model import init_params

    init = lambda config, key: init_params(config.model, config.features.num_mels, key)
    run, config, params, _ = load_named(Run, reference, init, step=step)
    units = run.read_tokenizer()
    units.check_fits(config.model.vocab_size)
    return LoadedRun(config, params, units)

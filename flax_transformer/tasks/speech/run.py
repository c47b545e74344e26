"""The run directory of a speech-to-text model: what every run has, and its units.

tokenizer/         the units: words, characters, or a SentencePiece model
tokenizer.sha256   their digest when the run began
"""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.engine.runs.run_directory import (
    DIGEST_FILE,
    RunDirectory,
    check_digest,
    split_reference,
    write_digest,
)
from flax_transformer.tasks.speech.config import SpeechConfig
from flax_transformer.tasks.speech.units import Units
from flax_transformer.text.tokenizer import DESCRIPTION_FILE


class Run(RunDirectory[SpeechConfig]):
    """The files of a speech-to-text run, except its checkpoints."""

    config_class = SpeechConfig
    use = 'transcribe {} FILE ...'
    evaluate_on = '--test test.tsv'
    model_files = ('tokenizer', DIGEST_FILE)

    def is_prepared(self) -> bool:
        return (self.path / 'tokenizer' / DESCRIPTION_FILE).is_file()

    def write_units(self, units: Units) -> None:
        """Writes the last of a new run's own files."""
        write_digest(self.path, units.digest)
        units.save(self.path / 'tokenizer')

    def read_units(self) -> Units:
        """The run's units. Raises UserError if they are not those that the run began with."""
        units = Units.load(self.path / 'tokenizer')
        check_digest(self.path, units.digest)
        return units


class LoadedRun(NamedTuple):
    """All that it takes to transcribe."""

    config: SpeechConfig
    params: Any
    units: Units


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config, parameters and units of a run; `named_params` says of which checkpoint."""
    from flax_transformer.engine.runs.averaging import named_params
    from flax_transformer.tasks.speech.model import parameter_shapes

    run = Run(split_reference(reference)[0])
    config = run.read_config()
    like = parameter_shapes(config.model, config.features.num_mels)
    params = named_params(reference, run, config.training, like, step=step)
    units = run.read_units()
    units.check_fits(config.model.vocab_size)
    return LoadedRun(config, params, units)

"""The run directory of a trigger word: what every run has."""

from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.tasks.trigger_word.config import Config


class Run(RunDirectory[Config]):
    """The files of a trigger-word run, except its checkpoints."""

    config_class = Config
    use = 'detect {} recording.wav'
    evaluate_on = '--data.test MANIFEST'

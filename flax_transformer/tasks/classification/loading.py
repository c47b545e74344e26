"""A trained classifier by name: `RUN`, or a checkpoint of it, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.averaging import named_params
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.model import parameter_shapes
from flax_transformer.tasks.classification.run import Labels, Run
from flax_transformer.tasks.classification.vocabulary import Vocabulary


class LoadedRun(NamedTuple):
    """All that it takes to classify."""

    config: Config
    params: Any
    vocabulary: Vocabulary
    labels: Labels


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config, parameters, vocabulary and labels of a run.

    Without `@which` and `step`: the best checkpoint (training.best_by), or the mean of the newest if
    training.average_last is above 1. `@average` is that mean, or the mean of all kept checkpoints.
    """
    run = Run(split_reference(reference)[0])
    config = run.read_config()
    like = parameter_shapes(config.model)
    params = named_params(reference, run, config.training, like, step=step)
    vocabulary, labels = run.read_vocabulary(), run.read_labels()
    check_vocabulary(vocabulary, config)
    if len(labels.names) != config.model.num_classes:
        raise UserError(
            f'{run.path} has {len(labels.names)} labels, but model.num_classes={config.model.num_classes}; restore the '
            'labels.json that the run was trained with'
        )
    return LoadedRun(config, params, vocabulary, labels)


def check_vocabulary(vocabulary: Vocabulary, config: Config) -> None:
    """Raises UserError if the model has no row for a token."""
    if vocabulary.size > config.model.vocab_size:
        raise UserError(
            f'model.vocab_size={config.model.vocab_size}, but the vocabulary has {vocabulary.size} tokens; set '
            f'--model.vocab-size {vocabulary.size}'
        )

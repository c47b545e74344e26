"""Trained word vectors by name: `RUN`, or a checkpoint of it, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.averaging import named_params
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.embeddings.config import Config
from flax_transformer.tasks.embeddings.glove import glove_vectors, init_glove
from flax_transformer.tasks.embeddings.run import Run
from flax_transformer.tasks.embeddings.vocabulary import Vocabulary
from flax_transformer.tasks.embeddings.word2vec import init_tables


class LoadedRun(NamedTuple):
    """The words of a run and all that it learned of them."""

    config: Config
    params: Any
    vocabulary: Vocabulary

    @property
    def matrix(self) -> np.ndarray:
        """[V, D] float32: the vector of each word of the vocabulary."""
        if self.config.model.method == 'glove':
            return glove_vectors(self.params, self.vocabulary.counts)
        return np.asarray(self.params['input'])[: len(self.vocabulary)]


def load_run(reference: Path | str) -> LoadedRun:
    """The config, tables and words of a run.

    Without `@which`: the best checkpoint (training.best_by), or the mean of the newest if training.average_last is
    above 1. `@average` is that mean, or the mean of all kept checkpoints.
    """
    run = Run(split_reference(reference)[0])
    config = run.read_config()
    init = init_glove if config.model.method == 'glove' else init_tables
    like = jax.eval_shape(partial(init, config.model), jax.random.key(0))
    params = named_params(reference, run, config.training, like)
    vocabulary = run.read_vocabulary()
    check_vocabulary(vocabulary, config)
    return LoadedRun(config, params, vocabulary)


def check_vocabulary(vocabulary: Vocabulary, config: Config) -> None:
    """Raises UserError if the tables have no row for a word."""
    if len(vocabulary) > config.model.vocab_size:
        raise UserError(
            f'model.vocab_size={config.model.vocab_size}, but the vocabulary has {len(vocabulary)} words; set '
            f'--model.vocab-size {len(vocabulary)}'
        )

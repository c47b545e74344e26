"""The run directory of word vectors, with the vocabulary and the text as ids (`corpus`)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.tasks.vocabulary import check_fits

from .config import EmbeddingsConfig
from .corpus import DESCRIPTION_FILE, IDS_FILE, Vocabulary

VOCABULARY_FILE = 'vocabulary.txt'
PAIRS_FILE = 'corpus.counts'


class LoadedRun(NamedTuple):
    config: EmbeddingsConfig
    params: Any
    vocabulary: Vocabulary

    @property
    def matrix(self) -> np.ndarray:
        """[V, D] float32."""
        if self.config.model.method == 'glove':
            from .glove import glove_vectors

            return glove_vectors(self.params, self.vocabulary.counts)
        return np.asarray(self.params['input'])[: len(self.vocabulary)]


class Run(RunDirectory[EmbeddingsConfig]):
    config_class = EmbeddingsConfig
    use = 'neighbors {} WORD ...'
    evaluate_on = '--analogies questions-words.txt'
    model_files = (VOCABULARY_FILE,)
    leftovers = (*RunDirectory.leftovers, IDS_FILE, DESCRIPTION_FILE, PAIRS_FILE)

    @property
    def pairs_file(self) -> Path:
        return self.path / PAIRS_FILE

    def is_prepared(self) -> bool:
        return (self.path / VOCABULARY_FILE).is_file()

    def write_vocabulary(self, vocabulary: Vocabulary) -> None:
        vocabulary.save(self.path / VOCABULARY_FILE)

    def read_vocabulary(self) -> Vocabulary:
        return Vocabulary.load(self.path / VOCABULARY_FILE)

    @staticmethod
    def init_params(config: EmbeddingsConfig, key: Any) -> Any:
        from .glove import init_glove
        from .word2vec import init_tables

        init = init_glove if config.model.method == 'glove' else init_tables
        return init(config.model, key)

    def loaded(self, config: EmbeddingsConfig, params: Any, scores: Any) -> LoadedRun:
        vocabulary = self.read_vocabulary()
        check_fits(len(vocabulary), config.model.vocab_size, 'words')
        return LoadedRun(config, params, vocabulary)

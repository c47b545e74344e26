"""The run directory of word vectors: what every run has, its vocabulary, and the text as ids.

vocabulary.txt     `word count`, the most frequent first
corpus.ids, .json  the text, see `corpus`; resuming reads them
corpus.pairs       how often words occur together, see `cooccurrences`; GloVe
"""

from pathlib import Path

from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.tasks.embeddings.config import Config
from flax_transformer.tasks.embeddings.corpus import DESCRIPTION_FILE, IDS_FILE, Vocabulary

VOCABULARY_FILE, PAIRS_FILE = 'vocabulary.txt', 'corpus.pairs'


class Run(RunDirectory[Config]):
    """The files of a run of word vectors, except its checkpoints."""

    config_class = Config
    model_files = (VOCABULARY_FILE,)
    leftovers = (*RunDirectory.leftovers, IDS_FILE, DESCRIPTION_FILE, PAIRS_FILE)

    @property
    def pairs_file(self) -> Path:
        return self.path / PAIRS_FILE

    def is_prepared(self) -> bool:
        return (self.path / VOCABULARY_FILE).is_file()

    def write_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Writes the last of a new run's own files."""
        vocabulary.save(self.path / VOCABULARY_FILE)

    def read_vocabulary(self) -> Vocabulary:
        """The run's words. Raises UserError if the file is missing or damaged."""
        return Vocabulary.load(self.path / VOCABULARY_FILE)

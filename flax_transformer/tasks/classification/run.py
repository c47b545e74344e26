"""The run directory of a classifier: what every run has, its vocabulary and its labels.

tokenizer/         the vocabulary: words, or a SentencePiece model
tokenizer.sha256   its digest when the run began; older runs have none
labels.json        the labels, and how many training examples have each
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole
from flax_transformer.common.json_text import parse_json
from flax_transformer.engine.runs.run_directory import (
    DIGEST_FILE,
    RunDirectory,
    check_digest,
    split_reference,
    write_digest,
)
from flax_transformer.tasks.classification.config import ClassificationConfig
from flax_transformer.tasks.classification.vocabulary import Vocabulary

LABELS_FILE = 'labels.json'


class Labels(NamedTuple):
    """What a classifier chooses from; a label's number is its place."""

    names: tuple[str, ...]  # sorted
    counts: tuple[int, ...]  # training examples of each

    @property
    def prior(self) -> tuple[float, ...]:
        return tuple(count / sum(self.counts) for count in self.counts)


class Run(RunDirectory[ClassificationConfig]):
    """The files of a classification run, except its checkpoints."""

    config_class = ClassificationConfig
    use = 'classify {} < lines > labels'
    evaluate_on = '--test test.tsv'
    model_files = ('tokenizer', DIGEST_FILE, LABELS_FILE)

    def is_prepared(self) -> bool:
        return (self.path / LABELS_FILE).is_file()

    def write_labels(self, labels: Labels) -> None:
        """Writes the last of a new run's own files."""
        write_whole(self.path / LABELS_FILE, json.dumps(labels._asdict(), indent=2, ensure_ascii=False) + '\n')

    def read_labels(self) -> Labels:
        file = self.path / LABELS_FILE
        try:
            found = parse_json(read_limited(file))
            labels = Labels(tuple(map(str, found['names'])), tuple(map(int, found['counts'])))
            if len(labels.names) == len(labels.counts) and min(labels.counts) >= 1:
                return labels
        except FileNotFoundError:
            raise UserError(f'{file} is missing: a classification run keeps its labels there') from None
        except (ValueError, TypeError, LookupError):
            pass
        raise UserError(f'{file} is damaged: expected {{"names": [...], "counts": [...]}}; copy it from the run again')

    def write_vocabulary(self, vocabulary: Vocabulary) -> None:
        write_digest(self.path, vocabulary.digest)
        vocabulary.save(self.path / 'tokenizer')

    def read_vocabulary(self) -> Vocabulary:
        """The run's vocabulary. Raises UserError if it is not the one that the run began with."""
        vocabulary = Vocabulary.load(self.path / 'tokenizer')
        check_digest(self.path, vocabulary.digest)
        return vocabulary


class LoadedRun(NamedTuple):
    """All that it takes to classify."""

    config: ClassificationConfig
    params: Any
    vocabulary: Vocabulary
    labels: Labels


def load_run(reference: Path | str, *, step: int | None = None) -> LoadedRun:
    """The config, parameters, vocabulary and labels of a run; `named_params` says of which checkpoint."""
    from flax_transformer.engine.runs.averaging import named_params
    from flax_transformer.tasks.classification.model import parameter_shapes

    run = Run(split_reference(reference)[0])
    config = run.read_config()
    like = parameter_shapes(config.model)
    params = named_params(reference, run, config.training, like, step=step)
    vocabulary, labels = run.read_vocabulary(), run.read_labels()
    vocabulary.check_fits(config.model.vocab_size)
    if len(labels.names) != config.model.num_classes:
        raise UserError(
            f'{run.path} has {len(labels.names)} labels, but model.num_classes={config.model.num_classes}; restore the '
            'labels.json that the run was trained with'
        )
    return LoadedRun(config, params, vocabulary, labels)

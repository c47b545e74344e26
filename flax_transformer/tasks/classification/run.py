"""The run directory of a classifier, with its vocabulary and its labels."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, write_whole
from flax_transformer.common.json_text import read_json
from flax_transformer.tasks.vocabulary import TokenizerRun

from .config import ClassificationConfig
from .vocabulary import Vocabulary

LABELS_FILE = 'labels.json'
TEMPERATURE = 'temperature'  # the validation score, kept with each checkpoint, that logits are divided by


class Labels(NamedTuple):
    """What a classifier chooses from; a label's number is its index."""

    names: tuple[str, ...]  # sorted
    counts: tuple[int, ...]  # training examples of each


class LoadedRun(NamedTuple):
    config: ClassificationConfig
    params: Any
    vocabulary: Vocabulary
    labels: Labels
    temperature: float  # fitted on the validation set; 1: there was none, or an earlier version trained the run


class Run(TokenizerRun[ClassificationConfig]):
    config_class = ClassificationConfig
    use = 'classify {} < lines > labels'
    evaluate_on = '--test test.tsv'
    load_tokenizer = Vocabulary.load
    model_files = (*TokenizerRun.model_files, LABELS_FILE)

    def is_prepared(self) -> bool:
        return (self.path / LABELS_FILE).is_file()

    def write_labels(self, labels: Labels) -> None:
        write_whole(self.path / LABELS_FILE, json.dumps(labels._asdict(), indent=2, ensure_ascii=False) + '\n')

    def read_labels(self) -> Labels:
        file = self.path / LABELS_FILE
        with naming_damage(file):
            content = read_json(file)
            labels = Labels(tuple(map(str, content['names'])), tuple(map(int, content['counts'])))
            if len(labels.names) != len(labels.counts) or min(labels.counts) < 1:
                raise ValueError('expected names, and as many counts of at least 1')
            return labels

    @staticmethod
    def init_params(config: ClassificationConfig, key: Any) -> Any:
        from .model import init_params

        return init_params(config.model, key)

    def loaded(self, config: ClassificationConfig, params: Any, scores: list[dict[str, Any]]) -> LoadedRun:
        vocabulary = self.read_tokenizer()
        labels = self.read_labels()
        vocabulary.check_fits(config.model.vocab_size)
        if len(labels.names) != config.model.num_classes:
            raise UserError(
                f'{self.path} has {len(labels.names)} labels, but model.num_classes={config.model.num_classes}; '
                f'restore the {LABELS_FILE} that the run was trained with'
            )
        return LoadedRun(config, params, vocabulary, labels, _temperature(scores))


def _temperature(scores: Sequence[dict[str, Any]]) -> float:
    """The checkpoint's, or the geometric mean of those that were averaged; 1 if one lacks it."""
    known = [entry.get(f'validation_{TEMPERATURE}') for entry in scores if isinstance(entry, dict)]
    if not known or not all(isinstance(value, float) and 0 < value < math.inf for value in known):
        return 1.0
    return math.exp(sum(map(math.log, known)) / len(known))

"""A config for labeled texts: weights of n-grams for a few, an average of embeddings for many."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.config_files import load_config
from flax_transformer.common.errors import UserError
from flax_transformer.data.repeats import keys_of
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, changed, data_fields

from .config import ClassificationDataConfig, ClassifierConfig, VocabularyConfig
from .reading import read_examples
from .vocabulary import Vocabulary

LEAST = 20  # texts
MOST_LINEAR = 20_000  # texts that a linear classifier is proposed for; we have measured up to 10,000
MOST_WEIGHTS = 20_000_000  # of a linear classifier
MOST_SLOTS = 2048
PASSES = {'average': 4, 'linear': 8}  # the average's are rt_polarity's, which starts from naive Bayes


def propose(file: Path, options: DataOptions) -> Proposal:
    """The candidate for labeled texts; holds out some if no others are given."""
    examples = read_examples(options.data, ClassificationDataConfig(root='.'))
    texts = examples.texts
    labels = Counter(examples.labels)
    different = Counter(label for label, _ in set(zip(examples.labels, keys_of(texts).tolist(), strict=True)))
    once = [f', {label!r} with one text' for label, count in different.items() if count < 2 and not options.valid]
    if len(texts) < LEAST or not 2 <= len(labels) <= len(texts) // 2 or once:
        raise UserError(
            f'{options.data}: got {len(texts):,} texts with {len(labels):,} different labels{min(once, default="")}, '
            f'expected at least {LEAST} texts, and at least two labels, each with several texts; table.tsv#2,1 takes '
            'the label from column 2 and the text from column 1'
        )

    data, held_out = data_fields(file, options, texts)
    batch = min(64, max(8, len(texts) // 30))
    sizes = _linear(texts, len(labels)) or _average(texts, len(labels))
    fields = data | sizes | {'model.num_classes': len(labels), 'training.batch_size': batch}
    config = changed(load_config('rt_polarity'), fields)

    shown = ', '.join(f'{label} ({count:,})' for label, count in labels.most_common(5))
    if len(labels) > 5:
        shown += ', ...'
    facts = [f'{options.data}: {len(texts):,} labeled texts{held_out}', f'  {len(labels):,} labels: {shown}']
    steps = max(PASSES[config.model.encoder] * len(texts) // batch, 20)
    return facts, [Candidate(config, steps, batch / len(texts))]


def _linear(texts: Sequence[str], num_classes: int) -> dict[str, Any]:
    """Fields of a linear classifier that knows each n-gram of the texts; none if they are too many."""
    if len(texts) > MOST_LINEAR:
        return {}
    tokenizer = VocabularyConfig(ngrams=2, characters=5)
    vocabulary = Vocabulary.learn(texts, tokenizer, MOST_WEIGHTS)
    if vocabulary.size * num_classes > MOST_WEIGHTS:
        return {}
    return {
        'model.encoder': 'linear',
        'model.vocab_size': vocabulary.size,
        'model.d_model': ClassifierConfig.d_model,
        'model.dropout_rate': ClassifierConfig.dropout_rate,
        'model.encoder_dropout_rate': 0.0,
        'tokenizer.algorithm': tokenizer.algorithm,
        'tokenizer.ngrams': tokenizer.ngrams,
        'tokenizer.characters': tokenizer.characters,
        'data.max_length': _slots(map(len, vocabulary.encode(texts))),
        'optimizer.learning_rate': 0.01,
        'training.label_smoothing': 0.2,
        'training.start': 'random',
    }


def _average(texts: Sequence[str], num_classes: int) -> dict[str, Any]:
    """Fields of rt_polarity's average of embeddings."""
    return {
        'model.d_model': max(16, num_classes),
        'data.max_length': _slots(1.5 * len(text.split()) for text in texts),  # a token may be less than a word
    }


def _slots(lengths: Iterable[float]) -> int:
    """data.max_length for texts of these lengths, of which a few are much longer."""
    longest = np.quantile(list(lengths), 0.995)
    return int(min(max(-(-longest // 16) * 16, 16), MOST_SLOTS))


PROPOSE = Command(DataOptions, propose)

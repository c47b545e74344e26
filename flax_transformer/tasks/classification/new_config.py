"""A config for labeled texts: weights of n-grams for a few, an average of embeddings for many."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from flax_transformer.common.config_files import load_config
from flax_transformer.common.errors import UserError
from flax_transformer.data.repeats import keys_of
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, changed, data_fields

from .config import ClassificationConfig, ClassificationDataConfig, VocabularyConfig
from .reading import read_examples
from .vocabulary import Vocabulary

LEAST = 20  # texts
MOST_LINEAR = 20_000  # texts of a linear classifier; measured up to 10,000
MOST_WEIGHTS = 20_000_000  # of its tokens and labels
PASSES = {'average': 4, 'linear': 8}  # naive Bayes, where rt_polarity's average starts, needs few more
LEAST_STEPS = {'average': 20, 'linear': 400}  # of linear weights, which start from zero
NGRAMS = VocabularyConfig(ngrams=2, characters=5)
LINEAR = {
    'model.encoder': 'linear',
    'optimizer.schedule': 'constant',
    'optimizer.learning_rate': 0.005,
    'optimizer.warmup_steps': 0,
    'training.label_smoothing': 0.1,
}


def propose(file: Path, options: DataOptions) -> Proposal:
    examples = read_examples(options.data, ClassificationDataConfig(root='.'))
    texts = examples.texts
    labels = Counter(examples.labels)
    different = Counter(label for label, _ in set(zip(examples.labels, keys_of(texts).tolist(), strict=True)))
    once = [label for label, count in different.items() if count < 2 and not options.valid]
    if len(texts) < LEAST or not 2 <= len(labels) <= len(texts) // 2 or once:
        rare = f', {min(once)!r} with one text' if once else ''
        if labels and examples.labels[0] in once:
            rare = f', {examples.labels[0]!r} with one text (if the first line is a header, remove it)'
        raise UserError(
            f'{options.data}: got {len(texts):,} texts with {len(labels):,} different labels{rare}, '
            f'expected at least {LEAST} texts, and at least two labels, each with several texts; table.tsv#2,1 takes '
            'the label from column 2 and the text from column 1'
        )

    data, held_out = data_fields(file, options, texts)
    batch = min(64, max(8, len(texts) // 10))
    fields = data | {'model.num_classes': len(labels), 'training.batch_size': batch}
    vocabulary = Vocabulary.learn(texts if len(texts) <= MOST_LINEAR else (), NGRAMS, MOST_WEIGHTS)
    if 2 < vocabulary.size <= MOST_WEIGHTS // len(labels):
        lengths = list(map(len, vocabulary.encode(texts)))
        config = replace(changed(ClassificationConfig(), LINEAR), tokenizer=NGRAMS)
        fields['model.vocab_size'] = vocabulary.size
    else:
        lengths = [1.5 * len(text.split()) for text in texts]  # a token may be less than a word
        config = load_config('rt_polarity')
        fields['model.d_model'] = max(16, len(labels))
    fields['data.max_length'] = int(min(max(-(-np.quantile(lengths, 0.995) // 16) * 16, 16), 2048))
    config = changed(config, fields)

    shown = ', '.join(f'{label} ({count:,})' for label, count in labels.most_common(5))
    if len(labels) > 5:
        shown += ', ...'
    facts = [f'{options.data}: {len(texts):,} labeled texts{held_out}', f'  {len(labels):,} labels: {shown}']
    steps = max(PASSES[config.model.encoder] * len(texts) // batch, LEAST_STEPS[config.model.encoder])
    return facts, [Candidate(config, steps, batch / len(texts))]


PROPOSE = Command(DataOptions, propose)

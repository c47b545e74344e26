"""A config for labeled texts: that of rt_polarity, with sizes for the number of texts and labels."""

from collections import Counter
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.repeats import keys_of
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, data_fields

from .config import ClassificationDataConfig
from .reading import read_examples

LEAST = 20  # texts
PASSES = 4  # rt_polarity's: naive Bayes, where training starts, needs few more


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
    longest = np.quantile([len(text.split()) for text in texts], 0.995) * 1.5  # a token may be less than a word
    batch = min(64, max(8, len(texts) // 100))
    fields = data | {
        'model.num_classes': len(labels),
        'model.d_model': max(16, len(labels)),
        'data.max_length': int(min(max(-(-longest // 16) * 16, 16), 1024)),
        'training.batch_size': batch,
    }

    shown = ', '.join(f'{label} ({count:,})' for label, count in labels.most_common(5))
    if len(labels) > 5:
        shown += ', ...'
    facts = [f'{options.data}: {len(texts):,} labeled texts{held_out}', f'  {len(labels):,} labels: {shown}']
    steps = max(PASSES * len(texts) // batch, 20)
    return facts, [Candidate.like('rt_polarity', fields, steps, batch / len(texts))]


PROPOSE = Command(DataOptions, propose)

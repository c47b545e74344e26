"""A config of a fitting size for labelled texts: that of rt_polarity, by the number of texts and labels."""

from collections import Counter
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.classification.config import (
    ClassificationConfig,
    ClassificationDataConfig,
    ClassificationTrainingConfig,
    ClassifierConfig,
    VocabularyConfig,
)
from flax_transformer.tasks.classification.reading import read_examples
from flax_transformer.tasks.new_config import (
    Candidate,
    DataOptions,
    Proposal,
    from_folder,
    hold_out,
    loop_fields,
    write_parts,
)

LEAST = 20  # texts
PASSES = 4  # rt_polarity's: naive Bayes, where training starts, needs few more


class NewOptions(DataOptions):
    """Those of any task."""


def propose(file: Path, options: NewOptions) -> Proposal:
    """The candidate for labelled texts; holds out some if no others are given. Raises UserError."""
    found = read_examples(options.given, ClassificationDataConfig(root='.'))
    labels, texts = Counter(found.labels), [' '.join(text.split()) for text in found.texts]
    if len(texts) < LEAST or len(labels) < 2 or len(labels) > len(texts) // 2:
        raise UserError(
            f'{options.data}: got {len(texts):,} texts with {len(labels):,} different labels, expected at least '
            f'{LEAST} texts, and at least two labels that occur often; table.tsv#2,1 takes the '
            'label from column 2 and the text from column 1'
        )
    root, held_out = file.absolute().parent, ''
    train, validation = (from_folder(name, root) for name in (options.data, options.valid))
    if not options.valid:
        lines = [f'{label}\t{text}' for label, text in zip(found.labels, texts, strict=True)]
        is_held_out = hold_out(texts, found.labels)
        train, validation = write_parts(file.absolute(), '.tsv', '', lines, is_held_out)
        held_out = f'; {sum(is_held_out):,} are held out in {file.with_suffix(".data")}'
    lengths = [len(text.split()) for text in texts]
    longest = int(np.quantile(lengths, 0.995) * 1.5)  # a token may be less than a word
    batch = min(64, max(8, len(texts) // 100))

    def config_of(steps: int) -> ClassificationConfig:
        return ClassificationConfig(
            model=ClassifierConfig(
                num_classes=len(labels), vocab_size=150_000, d_model=max(16, len(labels)), dropout_rate=0.3
            ),
            tokenizer=VocabularyConfig(ngrams=2),
            data=ClassificationDataConfig(
                train=train,
                validation=validation,
                test=from_folder(options.test, root),
                root=str(root),
                max_length=min(max(-(-longest // 16) * 16, 16), 1024),
            ),
            optimizer=OptimizerConfig(schedule='constant', learning_rate=5e-3, warmup_steps=0),
            training=ClassificationTrainingConfig(**loop_fields(steps), batch_size=batch, start='naive_bayes'),
        )

    comments = {
        'model': 'The mean of embeddings of words and pairs of words, as rt_polarity has it.',
        'data.root': "the config's own folder: it can be moved",
        'data.max_length': 'tokens; of a longer text the rest is cut',
        'training.start': 'what the training data say of each word and its labels',
    }
    shown = ', '.join(f'{label} ({count:,})' for label, count in labels.most_common(5)) + ', ...' * (len(labels) > 5)
    facts = [f'{options.data}: {len(texts):,} texts{held_out}', f'  {len(labels):,} labels: {shown}']
    steps = max(PASSES * len(texts) // batch, 20)
    title = f'Labels of texts: {len(labels):,} labels, {len(texts):,} texts of {options.data}'
    return Proposal(title, facts, [Candidate(config_of, steps, batch / len(texts))], comments)

"""A config for word vectors of a text: that of skip_gram, with sizes for the number of words."""

from collections import Counter
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, between, data_fields

from .config import EmbeddingsTrainingConfig, WordsConfig
from .corpus import words_of

LEAST = 10_000  # words
KEPT = 0.6  # share of the words that sampling leaves, about


def propose(file: Path, options: DataOptions) -> Proposal:
    if options.test:
        raise UserError('new: --test has no effect on word vectors; `evaluate` asks analogies and similarities')
    lines = read_lines(Path(options.data))
    config = WordsConfig(pattern=r'\w+', lower_case=True)
    counts = Counter(word for line in lines for word in words_of(line, config))
    total = counts.total()
    if total < LEAST or len(lines) < 100:
        raise UserError(
            f'{options.data}: got {total:,} words in {len(lines):,} lines, expected at least {LEAST:,}, better some '
            'millions, with a sentence or paragraph on each line'
        )
    data, held_out = data_fields(file, options, lines)
    del data['data.test']
    blocks = 2 ** round(np.log2(between(total, (10_000, 16), (12_700_000, 1024))))
    passes = round(between(total, (100_000, 40), (1_000_000, 15), (12_700_000, 5)))
    steps = max(int(total * KEPT * passes / blocks / EmbeddingsTrainingConfig().block_size), 50)
    fields = data | {
        'model.vocab_size': min(len(counts) + 1, 100_000),
        'tokenizer.pattern': r'\w+',
        'tokenizer.min_count': 5 if total > 1_000_000 else 2,
        'training.blocks_per_step': blocks,
    }
    fact = f'{options.data}: {total:,} words in {len(lines):,} lines, {len(counts):,} different{held_out}'
    return [fact], [Candidate.like('skip_gram', fields, steps, passes / steps)]


PROPOSE = Command(DataOptions, propose)

"""A config of a fitting size for word vectors of a text: skip-gram's, by the number of words."""

from itertools import chain
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.embeddings.config import (
    EmbeddingsConfig,
    EmbeddingsModelConfig,
    EmbeddingsTrainingConfig,
    TextConfig,
    UpdateConfig,
    WordsConfig,
)
from flax_transformer.tasks.embeddings.corpus import words_of
from flax_transformer.tasks.new_config import (
    Candidate,
    DataOptions,
    Proposal,
    between,
    from_folder,
    hold_out,
    loop_fields,
    write_parts,
)

LEAST = 10_000  # words
KEPT = 0.6  # share of the words that sampling leaves, about


class NewOptions(DataOptions):
    """Those of any task."""


def propose(file: Path, options: NewOptions) -> Proposal:
    """The candidate for a text; holds out lines if no other text is given. Raises UserError."""
    if options.test:
        raise UserError('new: --test has no effect on word vectors; `evaluate` asks analogies and similarities')
    lines, words = read_lines(Path(options.given)), WordsConfig(pattern=r'\w+', lower_case=True)
    counts = [len(words_of(line, words)) for line in lines]
    total, distinct = sum(counts), len(set(chain.from_iterable(words_of(line, words) for line in lines)))
    if total < LEAST:
        raise UserError(f'{options.data}: got {total:,} words, expected at least {LEAST:,}, better some millions')
    root, held_out = file.absolute().parent, ''
    train, validation = (from_folder(name, root) for name in (options.data, options.valid))
    if not options.valid and len(lines) >= LEAST // 100:
        is_held_out = hold_out(lines)
        train, validation = write_parts(file.absolute(), '.txt', '', lines, is_held_out)
        held_out = f'; {sum(is_held_out):,} lines are held out in {file.with_suffix(".data")}'
    blocks = min(1024, max(16, int(2 ** round(between(total, (10_000, 3), (10_000_000, 10), is_log=False)))))
    passes = round(between(total, (100_000, 40), (1_000_000, 15), (10_000_000, 5)))
    steps = max(int(total * KEPT * passes / blocks / EmbeddingsTrainingConfig().block_size), 50)

    def config_of(steps: int) -> EmbeddingsConfig:
        return EmbeddingsConfig(
            model=EmbeddingsModelConfig(vocab_size=min(distinct + 1, 100_000)),
            tokenizer=WordsConfig(pattern=words.pattern, lower_case=True, min_count=5 if total > 1_000_000 else 2),
            data=TextConfig(train=train, validation=validation, root=str(root)),
            optimizer=UpdateConfig(learning_rate=0.025),
            training=EmbeddingsTrainingConfig(**loop_fields(steps), blocks_per_step=blocks),
        )

    comments = {
        'model.vocab_size': f'words that are kept, at most; the text has {distinct:,} different ones',
        'tokenizer.pattern': 'letters and digits are a word',
        'tokenizer.min_count': 'rarer words are left out',
        'data.root': "the config's own folder: it can be moved",
        'training.blocks_per_step': 'fewer for less text',
    }
    facts = [f'{options.data}: {total:,} words in {len(lines):,} lines, {distinct:,} different{held_out}']
    candidate = Candidate(config_of, steps, passes / steps)
    return Proposal(f'Word vectors: {total:,} words of {options.data}', facts, [candidate], comments)

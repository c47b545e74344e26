"""Preparation of a training run: the vocabulary, and the text as ids."""

from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.named_files import data_root, matching_files
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.multihost import say
from flax_transformer.tasks.embeddings.config import Config
from flax_transformer.tasks.embeddings.corpus import Corpus, encode, load_corpus, prepare_corpus
from flax_transformer.tasks.embeddings.run import Run
from flax_transformer.tasks.embeddings.stream import keep_probabilities
from flax_transformer.tasks.embeddings.vocabulary import Vocabulary


class Prepared(NamedTuple):
    """What training reads."""

    vocabulary: Vocabulary
    corpus: Corpus
    validation: np.ndarray | None  # ids, with END_OF_LINE after each line


def prepare_run(config: Config, run: Run, start: Vocabulary | None = None) -> Prepared:
    """Counts the words of a new run, the vocabulary of `start` if given, and writes its text as ids.

    In a prepared run, reads what is there; if the text has changed, the ids are written again, with the run's words.
    Raises UserError for anything the user can fix, before a config is written.
    """
    root = data_root(config.data.root)
    files = matching_files(config.data.train, root)
    validation = matching_files(config.data.validation, root) if config.data.validation else []
    known = run.read_vocabulary() if run.is_prepared() else start
    corpus = load_corpus(run.path, files) if run.is_prepared() else None
    if corpus is None:
        run.path.mkdir(parents=True, exist_ok=True)
        corpus, vocabulary = prepare_corpus(
            files, config.tokenizer, run.path, vocab_size=config.model.vocab_size, known=known
        )
    else:
        vocabulary = known
    check_vocabulary(vocabulary, config)
    _report(corpus, vocabulary, config)
    held_out = encode(validation, vocabulary, config.tokenizer) if validation else None
    if held_out is not None and not len(held_out):
        raise UserError(f'data.validation: {config.data.validation} has no word of the vocabulary; expected some')
    if multihost.is_first():
        run.open(config)
        if not run.is_prepared():
            run.write_vocabulary(vocabulary)
    return Prepared(vocabulary, corpus, held_out)


def check_vocabulary(vocabulary: Vocabulary, config: Config) -> None:
    """Raises UserError if the tables have no row for a word."""
    if len(vocabulary) > config.model.vocab_size:
        raise UserError(
            f'model.vocab_size={config.model.vocab_size}, but the vocabulary has {len(vocabulary)} words; set '
            f'--model.vocab-size {len(vocabulary)}'
        )


def _report(corpus: Corpus, vocabulary: Vocabulary, config: Config) -> None:
    """Says what there is to train on. Raises UserError if no word has a neighbor."""
    name = config.data.train
    if corpus.num_known == corpus.num_lines:
        raise UserError(
            f'{name}: no line has two known words, so no word has a neighbor; expected a sentence or more on each line'
        )
    unknown = corpus.num_words - corpus.num_known
    say(
        f'{name}: {corpus.num_words:,} words in {corpus.num_lines:,} lines, {len(vocabulary):,} different'
        + (f'; {unknown:,} left out as too rare (tokenizer.min_count, model.vocab_size)' if unknown else '')
    )
    if config.model.method != 'glove':
        kept = int((vocabulary.counts * keep_probabilities(vocabulary.counts, config.data.sample)).sum())
        steps = kept / config.training.blocks_per_step / config.training.block_size
        say(f'  {kept:,} of them stay in an epoch (data.sample), which is some {max(round(steps), 1):,} steps')

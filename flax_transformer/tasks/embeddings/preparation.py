"""Preparation of a training run: the vocabulary, and the text as ids."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of
from flax_transformer.engine.devices.multihost import say
from flax_transformer.tasks.vocabulary import check_fits

from .batches import Chunks
from .blocks import BlockMaker, TextBlocks, TextChunks, keep_probabilities
from .config import EmbeddingsConfig
from .corpus import Corpus, Vocabulary, describe, encode, is_as_noted, load_corpus, prepare_corpus, texts_of
from .glove import PAIR, PairChunks, count_pairs
from .run import LoadedRun, Run


class Prepared(NamedTuple):
    vocabulary: Vocabulary
    fingerprint: str  # the text's
    train: Chunks
    validation: TextBlocks | None


def prepare_run(config: EmbeddingsConfig, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    """Writes the text of a new run as ids, or reads those of a prepared run.

    If the text has changed, they are written again, with the run's words. Raises UserError for anything the user can
    fix.
    """
    texts = texts_of(config.data)
    train, validation = texts['train'], texts.get('validation')
    vocabulary = run.read_vocabulary() if run.is_prepared() else start and start.vocabulary
    corpus = load_corpus(run.path, train.files, len(vocabulary)) if run.is_prepared() else None
    if corpus is None:
        run.path.mkdir(parents=True, exist_ok=True)
        run.pairs_file.unlink(missing_ok=True)
        corpus, vocabulary = prepare_corpus(
            train, config.tokenizer, run.path, vocab_size=config.model.vocab_size, known=vocabulary
        )

    check_fits(len(vocabulary), config.model.vocab_size, 'words')
    _report(corpus, vocabulary, config)
    if config.model.method == 'glove':  # it takes no validation text
        return Prepared(vocabulary, corpus.digest, _pairs(corpus, vocabulary, config, run), None)

    make = BlockMaker(vocabulary, config.model, block_size=config.training.block_size, sample=config.data.sample)
    held_out = None
    if validation:
        ids = encode(validation, vocabulary, config.tokenizer)
        if not len(ids):
            name = config.data.validation or f'what is held out of {config.data.train}'
            raise UserError(f'data.validation: {name} has no word of the vocabulary; expected some')
        held_out = make(ids, np.random.default_rng(0))
    return Prepared(vocabulary, corpus.digest, TextChunks(corpus.ids, make), held_out)


def keep(run: Run, config: EmbeddingsConfig, prepared: Prepared) -> None:
    if not run.is_prepared():
        run.write_vocabulary(prepared.vocabulary)


def _pairs(corpus: Corpus, vocabulary: Vocabulary, config: EmbeddingsConfig, run: Run) -> PairChunks:
    if not run.pairs_file.is_file() or not is_as_noted(run.pairs_file, corpus.pairs):
        keep = keep_probabilities(vocabulary.counts, config.data.sample) if config.data.sample else None
        count = count_pairs(corpus.ids, config.model.window, run.pairs_file, keep=keep, seed=config.seed)
        if not count:
            run.pairs_file.unlink()
            raise UserError(
                f'{config.data.train}: data.sample={config.data.sample} leaves out so many words that none has a '
                'neighbor; use more text, or set --data.sample 0'
            )
        describe(replace(corpus, pairs=[count * PAIR.itemsize, sha256_of(run.pairs_file)]))
        say(
            f'  {count:,} pairs of words at most {config.model.window} apart (model.window), which makes an epoch some '
            f'{_steps(count, config)}'
        )
    return PairChunks(np.memmap(run.pairs_file, PAIR, mode='r'), block_size=config.training.block_size)


def _report(corpus: Corpus, vocabulary: Vocabulary, config: EmbeddingsConfig) -> None:
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
    kept = int((vocabulary.counts * keep_probabilities(vocabulary.counts, config.data.sample)).sum())
    if config.model.method == 'glove':
        say(f'  some {kept:,} of them stay (data.sample)')
    else:
        say(f'  some {kept:,} of them stay in an epoch (data.sample), which is some {_steps(kept, config)}')


def _steps(count: int, config: EmbeddingsConfig) -> str:
    steps = count / config.training.blocks_per_step / config.training.block_size
    return f'{max(round(steps), 1):,} steps'

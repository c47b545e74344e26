"""What a training run needs before its first step: the tokenizer, the corpora as ids, the validation sets."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext import cache as data_cache
from flax_transformer.data.bitext.config import CorpusConfig
from flax_transformer.data.bitext.corpus import Corpus, Pairs
from flax_transformer.data.bitext.sources import open_corpus, read_corpus
from flax_transformer.data.bitext.tokenized import TokenizedPairs, tokenize
from flax_transformer.data.file_listing import Listed, listed, unchanged
from flax_transformer.tasks.translation.config import Config
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer

Say = Callable[[str], None]


class ValidationSet(NamedTuple):
    """A validation set, as text and as ids."""

    name: str  # of its corpus in the mixture
    pairs: Pairs
    tokenized: TokenizedPairs
    target_language: str | None  # whose tag its sources begin with


class Prepared(NamedTuple):
    """All that is read."""

    tokenizer: Tokenizer
    corpora: list[data_cache.PreparedPairs]  # of config.data.corpora
    validation: list[ValidationSet]
    files: dict[str, list[Listed]]  # of the training and validation corpora, by `files_of`


def open_corpora(config: Config) -> list[Corpus]:
    """The training corpora, to be read. Raises UserError where one is not there."""
    return [open_corpus(corpus.train, config.data, languages_of(corpus)) for corpus in config.data.corpora]


def languages_of(corpus: CorpusConfig) -> tuple[str, str]:
    return corpus.source_language, corpus.target_language


def tag_of(config: Config, corpus: CorpusConfig) -> str | None:
    """The language whose tag begins the corpus' sources."""
    return corpus.target_language if config.data.language_tags else None


def train_tokenizer(config: Config, corpora: Sequence[Corpus]) -> Tokenizer:
    """A joint tokenizer of both sides of the corpora."""
    settings = config.tokenizer
    return SentencePieceTokenizer.train(
        sample_lines(corpora, settings.max_sentences),
        vocab_size=config.model.vocab_size,
        algorithm=settings.algorithm,
        normalization=settings.normalization,
        byte_fallback=settings.byte_fallback,
        character_coverage=settings.character_coverage,
        pad_id=config.model.pad_id,
        eos_id=config.model.eos_id,
        unk_id=settings.unk_id,
        languages=config.data.target_languages if config.data.language_tags else (),
    )


def sample_lines(corpora: Sequence[Corpus], max_pairs: int) -> list[str]:
    """Both sides of pairs evenly spaced over all corpora: `max_pairs` at most, and half of them at least."""
    kept: list[tuple[str, str]] = []
    every = 1  # pair that is kept: twice as seldom whenever there are too many
    number = 0
    for corpus in corpora:
        for pairs in corpus.pairs():
            first = -number % every
            kept += zip(pairs.sources[first::every], pairs.targets[first::every], strict=True)
            number += len(pairs)
            while len(kept) > max_pairs:
                del kept[1::2]
                every *= 2
    return [line for side in (0, 1) for line in (pair[side] for pair in kept)]


def prepare(config: Config, tokenizer: Tokenizer | None, cache: Path, *, say: Say) -> Prepared:
    """Reads and tokenises everything, or finds it in the folder `cache`; without a tokenizer one is trained.

    Raises UserError for whatever the user can mend.
    """
    corpora = open_corpora(config)
    if tokenizer is None:
        tokenizer = train_tokenizer(config, corpora)
    check_tokenizer(config, tokenizer)
    # A fault in a validation set must not wait for the first evaluation, nor for a large corpus.
    validation = []
    for corpus in config.data.corpora:
        if corpus.has_validation:
            validation.append(read_validation(config, corpus, tokenizer, say))
        elif corpus.validation:
            say(
                f'data.validation is still {corpus.validation}, which is not meant for {corpus.train}: none is measured'
            )
    found = []
    for settings, corpus in zip(config.data.corpora, corpora, strict=True):
        pairs = _tokenised(config, settings, corpus, tokenizer, cache, say)
        name = f'{settings.name} ({corpus.name})' if config.data.mixture else corpus.name
        _say_what_is_left(name, pairs, config, say)
        found.append(pairs)
    files = files_of(config)
    known = {tuple(each['path'] for each in pairs.files): list(pairs.files) for pairs in found}
    entries = {
        name: known.get(tuple(str(file.absolute()) for file in of_name)) or listed(of_name)
        for name, of_name in files.items()
    }
    return Prepared(tokenizer, found, validation, entries)


def refuse_changed_files(config: Config, recorded: dict[str, list[Listed]]) -> None:
    """Raises UserError where files of the corpora have not the text that they had when the run began."""
    now = files_of(config) if recorded else {}
    for name, known in recorded.items():
        files = now.get(name)
        if files is None or unchanged(known, files) is not None:
            continue
        changed = [
            str(file) for i, file in enumerate(files) if i >= len(known) or unchanged(known[i : i + 1], [file]) is None
        ]
        what = ', '.join(changed) if changed else f'it has {len(files)} files, had {len(known)}'
        raise UserError(
            f'{name} is not what the run was trained on so far: {what}; bring back the text that it had, or give '
            'another --workdir'
        )


def files_of(config: Config) -> dict[str, tuple[Path, ...]]:
    """The text files of each training and validation corpus, by `NAME SOURCE-TARGET`."""
    found = {}
    for corpus in config.data.corpora:
        for name in (corpus.train, corpus.validation):
            if name and name.partition(':')[0] not in ('number_words', 'sacrebleu') and name.count(',') < 2:
                languages = languages_of(corpus)
                found[f'{name} {"-".join(languages)}'] = open_corpus(name, config.data, languages).files
    return found


def check_corpora(config: Config, *, say: Say, processes: int = 1) -> None:
    """Says what is wrong with the corpora of a config. Raises UserError where training on them makes no sense."""
    from flax_transformer.data.audit.checking import audit
    from flax_transformer.data.audit.vocabulary import Vocabulary

    with tqdm(desc='checking', unit=' pairs', disable=not sys.stderr.isatty(), delay=1) as bar:
        vocabulary = Vocabulary(config.model.vocab_size, config.tokenizer)
        report = audit(config.data, config.check, vocabulary, processes=processes, progress=bar.update)
    if report.errors:
        raise UserError(
            'the corpora are damaged:\n\n'
            + '\n\n'.join(map(str, report.errors))
            + '\n\nMend this. What can be trained on all the same is with --check.no-before-training'
        )
    for warning in report.warnings:
        say(str(warning).partition('\n')[0])
    say(report.summary() + ('; `flax-transformer check` with this config shows them' if report.findings else ''))


def _tokenised(
    config: Config, settings: CorpusConfig, corpus: Corpus, tokenizer: Tokenizer, cache: Path, say: Say
) -> data_cache.PreparedPairs:
    how = data_cache.Settings(
        config.data.source_length,
        config.data.target_length,
        tag_of(config, settings),
        keep_text=bool(config.data.bpe_dropout or config.data.unigram_alpha),
    )
    with tqdm(desc=f'tokenising {corpus.name}', unit=' pairs', disable=not sys.stderr.isatty(), delay=1) as bar:
        return data_cache.prepare(corpus, tokenizer, how, cache, say=say, progress=bar.update)


def check_tokenizer(config: Config, tokenizer: Tokenizer) -> None:
    """Raises UserError where the tokenizer is not that of the config's model."""
    for name in ('vocab_size', 'pad_id', 'eos_id'):
        got, expected = getattr(tokenizer, name), getattr(config.model, name)
        if got != expected:
            raise UserError(f'model.{name}={expected}, but the tokenizer has {name} {got}; set --model.{name} {got}')
    got, expected = tokenizer.unk_id, config.tokenizer.unk_id
    if got != expected:
        raise UserError(f'tokenizer.unk_id={expected}, but the tokenizer has unk_id {got}; set --tokenizer.unk-id')
    got, expected = tokenizer.target_vocab_size, config.model.vocab_size_of_target
    if got != expected:
        raise UserError(f'model.target_vocab_size: {expected} pieces, but the tokenizer has {got} on the target side')


def read_validation(config: Config, corpus: CorpusConfig, tokenizer: Tokenizer, say: Say) -> ValidationSet:
    """The validation set of a corpus. Raises UserError where it has no pair to evaluate on."""
    name, language = corpus.validation, tag_of(config, corpus)
    pairs = read_corpus(name, config.data, languages_of(corpus))
    say(f'{name}: {len(pairs):,} pairs {"-".join(languages_of(corpus))}')
    tokenized = tokenize(pairs, tokenizer, target_language=language)
    if not len(tokenized):
        raise UserError(
            f"each of the {len(pairs)} pairs of {name} has a blank side; mend it, or set --data.validation '' to "
            'train without validation'
        )
    return ValidationSet(corpus.name, pairs, tokenized, language)


def _say_what_is_left(name: str, pairs: TokenizedPairs, config: Config, say: Say) -> None:
    total = len(pairs) + pairs.num_blank + pairs.num_too_long
    tokens = int(pairs.target.offsets[-1])
    say(f'{name}: {len(pairs):,} of {total:,} pairs are trained on, {tokens:,} target tokens')
    if pairs.num_blank:
        say(f'  left out: {pairs.num_blank:,} pairs with a blank side')
    if pairs.num_too_long:
        slots = f'{config.data.source_length} source or {config.data.target_length} target tokens'
        say(f'  left out: {pairs.num_too_long:,} pairs of more than {slots}')


def interleaved(sets: Sequence[ValidationSet], count: int) -> list[tuple[ValidationSet, int]]:
    """The first few sentences of the sets in turn, `count` in all: of each the set and the sentence's number."""
    longest = max((len(each.pairs) for each in sets), default=0)
    turns = [(each, i) for i in range(min(longest, count)) for each in sets if i < len(each.pairs)]
    return turns[:count]

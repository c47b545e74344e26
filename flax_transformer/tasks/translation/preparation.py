"""Preparation of a training run: the tokenizer, the corpora as ids, the validation sets."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import Say
from flax_transformer.data.bitext import cache as data_cache
from flax_transformer.data.bitext.batches import loss_batches
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Pairs
from flax_transformer.data.bitext.sources import open_training, read_validation
from flax_transformer.data.bitext.tokenized import TokenizedPairs, flatten, tokenize
from flax_transformer.data.lines import Listed, listed
from flax_transformer.data.vector_files import PretrainedRows, pretrained_rows
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.monitor.progress_bar import is_terminal
from flax_transformer.engine.runs.finished import steps_of
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import MARKS, Tokenizer

from .config import Config
from .corpus_checks import check_corpora, files_of, refuse_changed_files
from .metrics import SPACED, ScoreTokens, score_tokens
from .run import LoadedRun, Run, check_tokenizer
from .words import TrainingWords

_MOST_PAIRS = 2_000_000  # pairs whose words are kept, of each corpus


class ValidationSet(NamedTuple):
    name: str  # its corpus's, in the mixture
    pairs: Pairs
    tokenized: TokenizedPairs
    tag: str | None  # a language whose tag begins sources, or targets; None: no tags
    target_language: str | None = None
    tokens: ScoreTokens = SPACED  # BLEU counts these
    source_language: str = 'en'


def validation_set(
    data: DataConfig, corpus: CorpusConfig, tokenizer: Tokenizer, say: Say, held_out: Corpus | None = None
) -> ValidationSet:
    """The validation set of a corpus, perhaps `held_out`. Raises UserError if all pairs are blank."""
    name = held_out.name if held_out else corpus.validation
    tag = data.tag_of(corpus)
    pairs = read_validation(corpus, data, held_out)
    say(f'{name}: {len(pairs):,} pairs {"-".join(corpus.languages)}')
    tokenized = tokenize(pairs, tokenizer.reading(corpus.source_language), target_language=tag)
    if not len(tokenized):
        raise UserError(
            f'each of the {len(pairs)} pairs of {name} has a blank side; repair it, or train without validation: '
            "--data.validation ''"
        )
    source, target = corpus.languages
    tokens = score_tokens(target, data.bleu_tokenizer)
    return ValidationSet(corpus.name, pairs, tokenized, tag, target, tokens, source)


def interleaved(sets: Sequence[ValidationSet], count: int) -> list[tuple[ValidationSet, int]]:
    """The first `count` sentences of the sets in turn, each as its set and its index there."""
    longest = max((len(own.pairs) for own in sets), default=0)
    turns = [(own, i) for i in range(min(longest, count)) for own in sets if i < len(own.pairs)]
    return turns[:count]


def of_each_corpus(data: DataConfig, sets: Sequence[ValidationSet]) -> list[TokenizedPairs]:
    """The validation set of every corpus, empty if it has none, since the loss numbers corpora by their order."""
    known = {own.name: own.tokenized for own in sets}
    return [known.get(corpus.name, TokenizedPairs(flatten([]), flatten([]))) for corpus in data.corpora]


class Prepared(NamedTuple):
    tokenizer: Tokenizer
    corpora: list[data_cache.PreparedPairs]  # ordered as config.data.corpora
    validation: list[ValidationSet]
    files: dict[str, list[Listed]]  # those of `files_of`
    pretrained: PretrainedRows | None = None  # initial embeddings of the source in a new run
    words: TrainingWords | None = None  # the words of a new run's sources


def prepare_run(config: Config, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    """Prepares the data of a run, and checks that of a new one."""
    is_new = not run.is_prepared()
    tokenizer = (start and start.tokenizer) if is_new else run.read_tokenizer()
    if is_new and config.check.before_training:
        check_corpora(config, say=say, processes=processes)
    refuse_changed_files(config.data, run.read_data_files())  # must come before their cache is replaced
    with run.data_cache(config.data) as cache:
        prepared = prepare(config, tokenizer, cache, say=say)
        if prepared.validation:
            corpora = of_each_corpus(config.data, prepared.validation)
            loss_batches(corpora, config.model, config.data, num_rows=1)  # raises if a pair is too long
        if is_new:
            prepared = prepared._replace(words=_words_of(config.data, start))
        if config.model.embedding_from and start is None and not steps_of(run.checkpoints):
            prepared = prepared._replace(pretrained=_pretrained(config, prepared.tokenizer))
    return prepared


def keep(run: Run, config: Config, prepared: Prepared) -> None:
    run.write_data_files(prepared.files)
    if not run.is_prepared():
        if prepared.words:
            prepared.words.write(run.path)
        run.write_tokenizer(prepared.tokenizer)


def _words_of(data: DataConfig, start: LoadedRun | None) -> TrainingWords | None:
    """The words of the sources, with those of the run from which it starts; None if that has not kept its own."""
    if start is None:
        return TrainingWords.of(_sources(data))
    return start.words and start.words.joined(TrainingWords.of(_sources(data)))


def _sources(data: DataConfig) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the language and the sources of each chunk of the corpora, up to _MOST_PAIRS of each."""
    for corpus in data.corpora:
        source, _ = corpus.languages
        count = 0
        for pairs in open_training(corpus, data)[0].pairs():
            yield source or data.source_language, pairs.sources
            count += len(pairs)
            if count >= _MOST_PAIRS:
                break


def _pretrained(config: Config, tokenizer: Tokenizer) -> PretrainedRows:
    special = {tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id, *tokenizer.languages.values()}
    tokens = [None if i in special else tokenizer.source_piece(i) for i in range(tokenizer.vocab_size)]
    return pretrained_rows(config.model.embedding_from, config.data.root, tokens, config.model.d_model, say=say)


class EvenSample:
    """Evenly spaced pairs of all that are added: at most `most`, and at least half of that."""

    def __init__(self, most: int) -> None:
        self.total = 0  # pairs added
        self.sides: tuple[list[str], list[str]] = [], []
        self._most = most
        self._every = 1  # one pair in so many is kept

    def add(self, pairs: Pairs) -> None:
        first = -self.total % self._every
        self.total += len(pairs)
        for kept, lines in zip(self.sides, (pairs.sources, pairs.targets), strict=True):
            kept += lines[first :: self._every]
        while len(self.sides[0]) > self._most:
            self._every *= 2
            for kept in self.sides:
                del kept[1::2]


def train_tokenizer(config: Config, corpora: Sequence[Corpus]) -> Tokenizer:
    settings = asdict(config.tokenizer)
    sample = EvenSample(settings.pop('max_sentences'))
    for corpus in corpora:
        for pairs in corpus.pairs():
            sample.add(pairs)
    sources, targets = sample.sides
    return SentencePieceTokenizer.train(
        [*sources, *targets],
        vocab_size=config.model.vocab_size,
        pad_id=config.model.pad_id,
        eos_id=config.model.eos_id,
        languages=config.data.target_languages if config.data.language_tags else (),
        marks=MARKS if config.data.terms else (),
        **settings,
    )


def prepare(config: Config, tokenizer: Tokenizer | None, cache: Path, *, say: Say) -> Prepared:
    """Reads and tokenizes everything, or finds it in `cache`; trains a tokenizer unless one is given."""
    parts = [open_training(corpus, config.data) for corpus in config.data.corpora]
    corpora = [train for train, _ in parts]
    if tokenizer is None:
        tokenizer = train_tokenizer(config, corpora)
    check_tokenizer(config, tokenizer)
    if config.data.terms and not tokenizer.marks:
        raise UserError('data.terms: the vocabulary has no marks; start from a run that has (add_marks)')

    # First, so that an error in a validation set does not wait for a large corpus.
    validation = []
    for corpus, (_, held_out) in zip(config.data.corpora, parts, strict=True):
        if corpus.has_validation:
            validation.append(validation_set(config.data, corpus, tokenizer, say, held_out))
        elif corpus.validation:
            say(f'data.validation is still {corpus.validation}, not meant for {corpus.train}: no validation')

    prepared = []
    for settings, corpus in zip(config.data.corpora, corpora, strict=True):
        pairs = _tokenized(config.data, settings, corpus, tokenizer, cache, say)
        name = f'{settings.name} ({corpus.name})' if config.data.mixture else corpus.name
        _report_filtered_pairs(name, pairs, config.data, say)
        prepared.append(pairs)

    # The cache already has the checksums of what it read.
    known = {tuple(file['path'] for file in pairs.files): list(pairs.files) for pairs in prepared}
    files = {
        name: known.get(tuple(str(file.absolute()) for file in files)) or listed(files)
        for name, files in files_of(config.data).items()
    }
    return Prepared(tokenizer, prepared, validation, files)


def _tokenized(
    data: DataConfig, settings: CorpusConfig, corpus: Corpus, tokenizer: Tokenizer, cache: Path, say: Say
) -> data_cache.PreparedPairs:
    keep_text = bool(data.bpe_dropout or data.unigram_alpha)
    tokenizer = tokenizer.reading(settings.source_language)
    how = data_cache.Settings(
        data.source_length, data.target_length, data.tag_of(settings), keep_text, data.robust, data.terms
    )
    with tqdm(desc=f'tokenizing {corpus.name}', unit=' pairs', disable=not is_terminal(), leave=False, delay=1) as bar:
        return data_cache.cached_pairs(corpus, tokenizer, how, cache, say=say, progress=bar.update)


def _report_filtered_pairs(name: str, pairs: TokenizedPairs, data: DataConfig, say: Say) -> None:
    total = len(pairs) + pairs.num_blank + pairs.num_too_long
    copies = ', copies included' if data.robust else ''
    say(f'{name}: {len(pairs):,} of {total:,} pairs are trained on, {pairs.target.offsets[-1]:,} target tokens{copies}')
    if pairs.num_blank:
        say(f'  left out: {pairs.num_blank:,} pairs with a blank side')
    if pairs.num_too_long:
        slots = f'{data.source_length} source or {data.target_length} target tokens'
        say(f'  left out: {pairs.num_too_long:,} pairs of more than {slots}')

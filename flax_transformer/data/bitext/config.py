"""The fields of parallel text: where it comes from and how it is mixed."""

import re
from dataclasses import dataclass, replace
from typing import Literal

from flax_transformer.common.fields import check, check_positive, check_range, check_types, setting
from flax_transformer.data.held_out import check_held_out

DEFAULT_TRAIN = 'number_words:train'
DEFAULT_VALIDATION = 'number_words:validation'


def is_made(name: str) -> bool:
    """Whether a corpus name means generated text."""
    return name.startswith('number_words:')


@dataclass(frozen=True)
class CorpusConfig:
    name: str  # shown in metrics
    train: str  # DataConfig lists its forms
    validation: str = ''  # the same forms; empty: no validation
    held_out: int = 0  # training pairs taken out for validation
    weight: float | None = None  # share of training sentences relative to the others; None: by size
    source_language: str | None = None  # None: data.source_language
    target_language: str | None = None  # None: data.target_language

    def __post_init__(self) -> None:
        check_types(self)
        for name in ('name', 'train'):
            check(bool(getattr(self, name)), f'{name} is empty: expected a value')
        check_range(self, 'weight', above=0)
        check_held_out(self.held_out, self._own_validation)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        return self.source_language, self.target_language

    @property
    def has_validation(self) -> bool:
        return bool(self.held_out or self._own_validation)

    @property
    def _own_validation(self) -> str:
        """The validation set by name; empty also if it is the generated default, and the training text is real."""
        return self.validation if is_made(self.train) or not is_made(self.validation) else ''


@dataclass(frozen=True)
class DataConfig:
    """Parallel text. A corpus is named in one of these forms:

    `folder/train.{lang}.gz`  two aligned text files, one sentence a line; `{lang}` stands for each language
    `a/train.src,b/train.tgt`  the same as two paths; in evaluation, more paths are more references,
        and so are further columns of `test.tsv`, where a line may have any number
    `folder/pairs.tsv`  one file, source and target in columns 1 and 2; `pairs.tsv#3,1` names other columns;
        a header line may name them: source and target, or the languages; `pairs.csv` likewise
    `folder/pairs.jsonl`  on each line {"en": ..., "de": ...}, or those under "translation", or "source", "target"
    `tfds:wmt14_translate/de-en:train`  TensorFlow Datasets, prepared as array_record
    `sacrebleu:wmt14/en-de`  a test set that sacrebleu has downloaded
    `number_words:train`  numbers in words, made by num2words

    Files may be compressed (.gz, .xz, .bz2, .zst); `*` in a path matches several files, read in order of their names.
    """

    source_language: str = 'en'  # the language to translate from; stands for {lang} in paths
    target_language: str = 'de'  # the language to translate into; likewise
    train: str = DEFAULT_TRAIN  # what to train on, such as folder/train.{lang}.gz or pairs.tsv
    validation: str = DEFAULT_VALIDATION  # what the best checkpoint is chosen by; empty: none
    held_out: int = 0  # training pairs taken out for validation; equal ones together
    test: str = setting('number_words:test', 'resumable')  # what `evaluate` scores; empty: none
    # BLEU's tokenizer, by sacreBLEU's names; auto: its choice for the target language, 13a for most.
    bleu_tokenizer: Literal[
        *('auto', '13a', 'intl', 'zh', 'ja-mecab', 'ko-mecab', 'char', 'none'),
        *('flores101', 'flores200', 'spBLEU-1K', 'spm'),
    ] = setting('auto', 'resumable')
    mixture: tuple[CorpusConfig, ...] = ()  # several corpora instead of `train` and `validation`
    mixture_temperature: float = 1.0  # corpora without weights are mixed by number of pairs ^ (1 / temperature)
    language_tags: bool = False  # begin each source with the target language (`<2de>`): one model, many languages
    # The folder where relative paths start; None: $FLAX_TRANSFORMER_DATA, else data/.
    root: str | None = setting(None, 'resumable', 'cosmetic')
    # Folder for tokenized corpora, which runs may share; None: in the run directory.
    cache: str | None = setting(None, 'resumable', 'cosmetic')
    source_length: int = 128  # tokens in a packed row; a longer sentence (with EOS) is left out and reported
    target_length: int = 128  # the same for the target
    block_size: int = 2048  # sentences packed together
    # Processes that plan training batches, 0: none; None: one for every two cores, at most 8; none for a small corpus.
    workers: int | None = setting(None, 'resumable', 'cosmetic')
    # Rate of merges dropped in training with algorithm bpe, as in SentencePiece; 0.05 splits like 0.1 in the paper
    # (Provilkov et al. 2020).
    bpe_dropout: float = 0.0
    unigram_alpha: float = 0.0  # sharpness of segmentations sampled in training (Kudo 2018), 0: off; for unigram
    robust: float = 0.0  # share of pairs with a changed copy: names, codes, capitals, odd signs; such as 0.2
    terms: float = 0.0  # share of sources with translations of some words, so that glossaries are read; such as 0.3
    numbers_below: int = 1_000_000  # number_words: exclusive upper bound
    numbers_train: int = 60_000  # number_words: training pairs
    numbers_held_out: int = 1_000  # number_words: pairs in validation, and in test

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'source_length', 'target_length', 'block_size', 'numbers_train', 'numbers_held_out')
        check_range(self, 'bpe_dropout', least=0, below=1)
        check_range(self, 'robust', 'terms', least=0, most=1)
        is_drawn = self.bpe_dropout or self.unigram_alpha
        check(not (self.terms and is_drawn), 'terms: expected 0 with bpe_dropout or unigram_alpha')
        check_range(self, 'workers', 'unigram_alpha', least=0)
        for name in ('source_language', 'target_language', 'train'):
            check(bool(getattr(self, name)), f'{name} is empty: expected a value')
        for name in ('source_language', 'target_language'):  # the language becomes part of a file's name
            language = getattr(self, name)
            check(bool(re.match(r'\w[^/\\]*$', language)), f'{name}={language!r}: expected a language, such as en')
        check_range(self, 'numbers_below', most=10**15)
        needed = self.numbers_train + 2 * self.numbers_held_out
        check(
            self.numbers_below >= needed,
            f'numbers_below={self.numbers_below}: numbers_train + 2 * numbers_held_out ask for {needed} numbers',
        )
        self._check_mixture()

    def _check_mixture(self) -> None:
        temperature = self.mixture_temperature
        check(temperature >= 1, f'mixture_temperature={temperature}: expected at least 1, which mixes by size')
        names = [corpus.name for corpus in self.mixture]
        check('test' not in names, "mixture: 'test' is the name of the test set in reports; give the corpus another")
        for name, default in (('train', DEFAULT_TRAIN), ('validation', DEFAULT_VALIDATION), ('held_out', 0)):
            value = getattr(self, name)
            check(not names or value == default, f'{name}={value!r} has no effect with a mixture; leave it out')
        check(len(set(names)) == len(names), f'mixture: expected names that differ, got {", ".join(names)}')

        weighted = [corpus.name for corpus in self.mixture if corpus.weight is not None]
        check(
            len(weighted) in (0, len(names)),
            f'mixture: {", ".join(weighted)} have a weight and the others none; give one to all, or to none',
        )
        check(
            not weighted or temperature == 1,
            f'mixture_temperature={temperature} has no effect where the corpora have weights; leave out one of them',
        )

        targets = self.target_languages
        known = ', '.join(targets)
        check(
            self.language_tags or len(targets) < 2,
            f'mixture: the corpora have the target languages {known}, and a model could not know which is meant; set '
            'language_tags',
        )
        check(
            not self.language_tags or self.target_language in targets,
            f'target_language={self.target_language!r} is no target of the corpora, {known}; it is the default',
        )

    @property
    def corpora(self) -> tuple[CorpusConfig, ...]:
        """What is trained on: the mixture, or `train` alone. Their languages are filled in."""
        filled = []
        for corpus in self.mixture or (CorpusConfig('train', self.train, self.validation, self.held_out),):
            source = corpus.source_language or self.source_language
            target = corpus.target_language or self.target_language
            filled.append(replace(corpus, source_language=source, target_language=target))
        return tuple(filled)

    def without_held_out(self) -> 'DataConfig':
        mixture = tuple(replace(corpus, held_out=0) for corpus in self.mixture)
        return replace(self, held_out=0, mixture=mixture)

    def tag_of(self, corpus: CorpusConfig) -> str | None:
        """The language whose tag begins the corpus's sources; None without tags."""
        return corpus.target_language if self.language_tags else None

    @property
    def has_test(self) -> bool:
        return bool(self.test) and (not is_made(self.test) or any(is_made(corpus.train) for corpus in self.corpora))

    @property
    def target_languages(self) -> tuple[str, ...]:
        return tuple(sorted({corpus.target_language for corpus in self.corpora}))

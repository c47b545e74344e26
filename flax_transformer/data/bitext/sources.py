"""A corpus by name: text files, TensorFlow Datasets, sacrebleu's test sets, or number words."""

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.lines import CHUNK, content_suffix
from flax_transformer.data.named_files import (
    columns_of,
    data_root,
    existing_file,
    matching_files,
    named_paths,
    path_below,
    wildcards,
)
from flax_transformer.data.tfds_builders import TfdsSplit, builder_path

from .config import CorpusConfig, DataConfig
from .corpus import Corpus, Pairs, Records, split
from .text_files import AlignedFiles, JsonLines, TableFiles, read_references, read_text_files

Languages = tuple[str, str]  # source and target
SPLITS = ('train', 'validation', 'test')
_SEED = 2017  # fixed, so that every run holds out the same numbers


def read_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Pairs:
    """The sentence pairs of a corpus, in memory; DataConfig lists the forms of a name."""
    if name.startswith('sacrebleu:'):
        return read_text_files(*sacrebleu_files(name))
    source, *targets = name.split(',')
    root = data_root(config.root)
    if targets and form_of(name, root) == 'two paths':
        return read_references(*(AlignedFiles(name, _aligned([source, target], root)) for target in targets))
    return open_corpus(name, config, languages).read()


def named_files(name: str, config: DataConfig) -> Iterable[Path]:
    """The files, or the folder, that `read_corpus` opens for a name, whether or not they exist."""
    if name.startswith(('sacrebleu:', 'number_words:')):
        return ()
    root = data_root(config.root)
    if name.startswith('tfds:'):
        return (builder_path(name, root),)
    patterns = _patterns(name, form_of(name, root), (config.source_language, config.target_language))
    return itertools.chain.from_iterable(named_paths(pattern, root) for pattern in patterns)


def open_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Corpus:
    languages = languages or (config.source_language, config.target_language)
    root = data_root(config.root)
    if name.startswith('number_words:'):
        return NumberWords(name, config, languages)
    if name.startswith('tfds:'):
        return _TfdsCorpus(name, root, languages)
    form = form_of(name, root)
    patterns = _patterns(name, form, languages)
    if form == '{lang}':
        return AlignedFiles(name, _aligned(patterns, root), {'languages': languages})
    if form == 'two paths' and len(patterns) == 2:
        return AlignedFiles(name, _aligned(patterns, root))
    if form in ('.tsv', '.csv'):
        path, columns = columns_of(name)
        return TableFiles(name, matching_files(*patterns, root), languages, None if path == name else columns)
    if form == '.jsonl':
        return JsonLines(name, matching_files(*patterns, root), languages)
    raise UserError(
        f'corpus {name!r}: expected a path with {{lang}} in it, two paths with a comma between, a .tsv, .csv or .jsonl '
        'file, tfds:NAME/CONFIG:SPLIT, or number_words:train (for evaluation also sacrebleu:TESTSET/SOURCE-TARGET, and '
        'paths of several references)'
    )


def open_training(corpus: CorpusConfig, config: DataConfig) -> tuple[Corpus, Corpus | None]:
    """The corpus to train on, and what is held out of it, if anything is."""
    whole = open_corpus(corpus.train, config, corpus.languages)
    return split(whole, corpus.held_out) if corpus.held_out else (whole, None)


def read_validation(corpus: CorpusConfig, config: DataConfig, held_out: Corpus | None = None) -> Pairs:
    """The validation pairs of a corpus that has some; `held_out` as `open_training` returned it, if known."""
    if not corpus.held_out:
        return read_corpus(corpus.validation, config, corpus.languages)
    return (held_out or open_training(corpus, config)[1]).read()


def form_of(name: str, root: Path) -> str:
    """The form of the name of a corpus in files: {lang}, .tsv, .csv, .jsonl, two paths, or ''."""
    path, _ = columns_of(name)
    kind = content_suffix(Path(path))
    if '{lang}' in name:
        return '{lang}'
    # A comma may be part of the one path.
    if kind in ('.tsv', '.csv', '.jsonl') and (',' not in path or existing_file(path_below(path, root))):
        return kind
    return 'two paths' if ',' in name else ''


def _patterns(name: str, form: str, languages: Languages) -> list[str]:
    if form == '{lang}':
        return [name.replace('{lang}', language) for language in languages]
    return name.split(',') if form == 'two paths' else [columns_of(name)[0]]


def _aligned(patterns: list[str], root: Path) -> list[tuple[Path, Path]]:
    sources, targets = (
        {wildcards(pattern, file, root): file for file in matching_files(pattern, root)} for pattern in patterns
    )
    alone = sorted(str((sources | targets)[stars]) for stars in sources.keys() ^ targets.keys())
    if alone:
        raise UserError(
            f'{patterns[0]!r} matches {len(sources)} files, {patterns[1]!r} {len(targets)}; expected the same parts, '
            f'but these are on one alone: {", ".join(alone[:5])}'
        )
    return [(file, targets[stars]) for stars, file in sources.items()]


def split_numbers(split: str, config: DataConfig) -> np.ndarray:
    """The numbers of a split, disjoint from others; train has all small and round numbers that are not held out."""
    if split not in SPLITS:
        raise UserError(f'number_words:{split}: expected one of {", ".join(SPLITS)}.{nearest(split, SPLITS)}')
    held_out = config.numbers_held_out
    total = config.numbers_train + 2 * held_out
    drawn = np.random.default_rng(_SEED).choice(config.numbers_below, size=total, replace=False)
    validation, test, train = np.split(drawn, [held_out, 2 * held_out])
    if split != 'train':
        return test if split == 'test' else validation
    # A uniform draw has hardly any small or round numbers, which are what people try first.
    simple = np.union1d(np.arange(1000), np.arange(1000) * 1000)
    simple = np.setdiff1d(simple[simple < config.numbers_below], drawn[: 2 * held_out])
    return np.concatenate([simple, np.setdiff1d(train, simple, assume_unique=True)])[: config.numbers_train]


class NumberWords(Corpus):
    def __init__(self, name: str, config: DataConfig, languages: Languages) -> None:
        self._numbers = split_numbers(name.removeprefix('number_words:'), config)
        self._languages = languages
        settings = {'below': config.numbers_below, 'train': config.numbers_train, 'held_out': config.numbers_held_out}
        super().__init__(name, settings={**settings, 'languages': languages})

    def records(self) -> Iterator[Records]:
        for first in range(0, len(self._numbers), CHUNK):
            numbers = self._numbers[first : first + CHUNK]
            yield Records(*(_spell(numbers, language) for language in self._languages))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, the number {self._numbers[index]} in {self._languages[side]!r}'


def _spell(numbers: np.ndarray, language: str) -> list[bytes]:
    from num2words import CONVERTER_CLASSES, num2words

    if language not in CONVERTER_CLASSES:
        known = ', '.join(sorted(CONVERTER_CLASSES))
        raise UserError(f'num2words knows no language {language!r}; it knows {known}')
    try:
        return [num2words(int(number), lang=language).encode() for number in numbers]
    except Exception as error:  # some of its languages fail on any number, each in its own way
        raise UserError(
            f'num2words cannot spell all numbers in {language!r} ({error!r}); choose another language'
        ) from None


class _TfdsCorpus(Corpus):
    def __init__(self, name: str, root: Path, languages: Languages) -> None:
        self._split = TfdsSplit(name, root)
        self._languages = languages
        known = self._split.info.features
        for language in languages:
            if language not in known:
                raise UserError(f'corpus {name!r} has no language {language!r}; it has {", ".join(sorted(known))}')
        super().__init__(name, self._split.files, {'split': self._split.split, 'languages': languages})

    def records(self) -> Iterator[Records]:
        for rows in self._split.rows():
            yield Records(*([row[language].bytes_list.value[0] for row in rows] for language in self._languages))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, example {index + 1} ({self._languages[side]})'


def sacrebleu_files(name: str) -> list[Path]:
    """The source of `sacrebleu:TESTSET/SOURCE-TARGET` and its references, a sentence on each line."""
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    test_set, _, languages = name.removeprefix('sacrebleu:').rpartition('/')
    if test_set not in DATASETS:
        hint = nearest(test_set, DATASETS)
        raise UserError(f'corpus {name!r}: expected sacrebleu:TESTSET/SOURCE-TARGET, as wmt14/en-de.{hint}')
    dataset = DATASETS[test_set]
    if languages not in dataset.langpairs:
        raise UserError(f'corpus {name!r}: {test_set} has the languages {", ".join(dataset.langpairs)}')
    folder = os.path.join(SACREBLEU_DIR, test_set)
    command = f'  sacrebleu -t {test_set} -l {languages} --echo src > /dev/null'
    if not os.path.isdir(folder) or not os.listdir(folder):
        raise UserError(f'corpus {name!r}: sacrebleu has no {test_set} in {folder}. Download it once:\n{command}')
    try:
        files = [dataset.get_source_file(languages), *dataset.get_reference_files(languages)]
    except OSError as error:  # a file is missing, and sacrebleu cannot download it now
        raise UserError(f'corpus {name!r}: {error}; remove {folder} and download it again:\n{command}') from None
    if len(files) < 2:
        raise UserError(f'corpus {name!r}: {test_set} has no reference in these languages; choose another set')
    return list(map(Path, files))

"""A corpus by name: text files, TensorFlow Datasets, sacrebleu's test sets, or number words."""

import itertools
from collections.abc import Iterable
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import content_suffix
from flax_transformer.data.named_files import (
    columns_of,
    data_root,
    existing_file,
    matching_files,
    named_paths,
    path_below,
    wildcards,
)

from .config import CorpusConfig, DataConfig
from .corpus import Corpus, Pairs
from .split import split
from .text_files import AlignedFiles, JsonLines, TsvFiles, read_references

Languages = tuple[str, str]  # source and target


def read_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Pairs:
    """The sentence pairs of a corpus, in memory; DataConfig lists the forms of a name.

    `languages` default to those of the config. Raises UserError if the corpus cannot be read.
    """
    if name.startswith('sacrebleu:'):
        from .named_corpora import read_sacrebleu

        return read_sacrebleu(name)
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
        from flax_transformer.data.tfds_builders import builder_path

        return (builder_path(name, root),)
    patterns = _patterns(name, form_of(name, root), (config.source_language, config.target_language))
    return itertools.chain.from_iterable(named_paths(pattern, root) for pattern in patterns)


def open_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Corpus:
    """The corpus of a name, to be read in chunks. Raises UserError if there is none."""
    languages = languages or (config.source_language, config.target_language)
    root = data_root(config.root)
    if name.startswith('number_words:'):
        from .named_corpora import NumberWords

        return NumberWords(name, config, languages)
    if name.startswith('tfds:'):
        from .named_corpora import TfdsCorpus

        return TfdsCorpus(name, root, languages)
    form = form_of(name, root)
    patterns = _patterns(name, form, languages)
    if form == '{lang}':
        return AlignedFiles(name, _aligned(patterns, root), {'languages': languages})
    if form == 'two paths' and len(patterns) == 2:
        return AlignedFiles(name, _aligned(patterns, root))
    if form in ('.tsv', '.jsonl'):
        files = matching_files(*patterns, root)
        return TsvFiles(name, files, columns_of(name)[1]) if form == '.tsv' else JsonLines(name, files, languages)
    raise UserError(
        f'corpus {name!r}: expected a path with {{lang}} in it, two paths with a comma between them, a .tsv or .jsonl '
        'file, tfds:NAME/CONFIG:SPLIT, or number_words:train (for evaluation also sacrebleu:TESTSET/SOURCE-TARGET, and '
        'paths of several references)'
    )


def open_training(corpus: CorpusConfig, config: DataConfig) -> tuple[Corpus, Corpus | None]:
    """The corpus to train on, and what is held out of it, if anything is; its text is read once to choose that."""
    whole = open_corpus(corpus.train, config, corpus.languages)
    return split(whole, corpus.held_out) if corpus.held_out else (whole, None)


def read_validation(corpus: CorpusConfig, config: DataConfig, held_out: Corpus | None = None) -> Pairs:
    """The validation pairs of a corpus that has some; `held_out` is what `open_training` returned, if known."""
    if not corpus.held_out:
        return read_corpus(corpus.validation, config, corpus.languages)
    return (held_out or open_training(corpus, config)[1]).read()


def form_of(name: str, root: Path) -> str:
    """The form of the name of a corpus in files: {lang}, .tsv, .jsonl, two paths, or ''."""
    path, _ = columns_of(name)
    kind = content_suffix(Path(path))
    if '{lang}' in name:
        return '{lang}'
    # A comma may be part of the one path.
    if kind in ('.tsv', '.jsonl') and (',' not in path or existing_file(path_below(path, root))):
        return kind
    return 'two paths' if ',' in name else ''


def _patterns(name: str, form: str, languages: Languages) -> list[str]:
    """The paths in the name of a corpus in files, which may have wildcards."""
    if form == '{lang}':
        return [name.replace('{lang}', language) for language in languages]
    return name.split(',') if form == 'two paths' else [columns_of(name)[0]]


def _aligned(patterns: list[str], root: Path) -> list[tuple[Path, Path]]:
    """The files of both sides that belong together: `*` must stand for the same on both."""
    sources, targets = (
        {wildcards(pattern, file, root): file for file in matching_files(pattern, root)} for pattern in patterns
    )
    if alone := sorted(str((sources | targets)[stars]) for stars in sources.keys() ^ targets.keys()):
        raise UserError(
            f'{patterns[0]!r} matches {len(sources)} files, {patterns[1]!r} matches {len(targets)}; expected the same '
            f'parts on both sides, but these are on one alone: {", ".join(alone[:5])}'
        )
    return [(file, targets[stars]) for stars, file in sources.items()]

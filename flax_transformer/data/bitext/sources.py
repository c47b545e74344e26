"""A corpus by name: text files, TensorFlow Datasets, sacrebleu's test sets, or number words."""

import glob
import os
import re
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Pairs
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.lines import SUFFIXES, content_suffix, no_such_file

ROOT_VARIABLE = 'FLAX_TRANSFORMER_DATA'
_WILDCARD = re.compile(r'(\*\*/|\*+|\?|\[[^\]]*\])')
Languages = tuple[str, str]  # of the source, of the target


def data_root(config: DataConfig) -> Path:
    """The folder where relative paths start: data.root, else $FLAX_TRANSFORMER_DATA, else data/."""
    return Path(os.path.expanduser(config.root or os.environ.get(ROOT_VARIABLE) or 'data'))


def read_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Pairs:
    """The sentence pairs of a corpus, in memory; DataConfig lists the forms of a name.

    `languages` default to those of the config. Raises UserError if the corpus cannot be read.
    """
    if name.startswith('sacrebleu:'):
        from flax_transformer.data.bitext.sacrebleu_source import read_sacrebleu

        return read_sacrebleu(name)
    source, *targets = name.split(',')
    if len(targets) > 1 and _form(name, root := data_root(config)) == 'two paths':
        first, *others = (AlignedFiles(name, _aligned([source, target], root)).read() for target in targets)
        return Pairs(first.sources, first.targets, tuple(other.targets for other in others))
    return open_corpus(name, config, languages).read()


def open_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Corpus:
    """The corpus of a name, to be read in chunks. Raises UserError if there is none."""
    languages = languages or (config.source_language, config.target_language)
    root = data_root(config)
    if name.startswith('number_words:'):
        from flax_transformer.data.bitext.number_words import NumberWords

        return NumberWords(name, config, languages)
    if name.startswith('tfds:'):
        from flax_transformer.data.bitext.tfds_source import TfdsCorpus

        return TfdsCorpus(name, root, languages)
    form = _form(name, root)
    if form == '{lang}':
        files = _aligned([name.replace('{lang}', language) for language in languages], root)
        return AlignedFiles(name, files, {'languages': languages})
    if form == 'two paths' and name.count(',') == 1:
        return AlignedFiles(name, _aligned(name.split(','), root))
    if form in ('.tsv', '.jsonl'):
        from flax_transformer.data.bitext.table_files import JsonLines, TsvFiles

        path, columns = _columns(name)
        files = _files(path, root)
        return TsvFiles(name, files, columns) if form == '.tsv' else JsonLines(name, files, languages)
    raise UserError(
        f'corpus {name!r}: expected a path with {{lang}} in it, two paths with a comma between them, a .tsv or .jsonl '
        'file, tfds:NAME/CONFIG:SPLIT, or number_words:train (for evaluation also sacrebleu:TESTSET/SOURCE-TARGET, and '
        'paths of several references)'
    )


def _form(name: str, root: Path) -> str:
    """The form of the name of a corpus in files."""
    path, _ = _columns(name)
    kind = content_suffix(Path(path))
    if '{lang}' in name:
        return '{lang}'
    # A comma may be part of the one path.
    if kind in ('.tsv', '.jsonl') and (',' not in path or _with_suffix(_path(path, root))):
        return kind
    return 'two paths' if ',' in name else ''


def _aligned(patterns: list[str], root: Path) -> list[tuple[Path, Path]]:
    """The files of both sides that belong together: `*` must stand for the same on both."""
    sources, targets = (
        {_wildcard(pattern, file, root): file for file in _files(pattern, root)} for pattern in patterns
    )
    if alone := sorted(str((sources | targets)[stars]) for stars in sources.keys() ^ targets.keys()):
        raise UserError(
            f'{patterns[0]!r} matches {len(sources)} files, {patterns[1]!r} matches {len(targets)}; expected the same '
            f'parts on both sides, but these are on one alone: {", ".join(alone[:5])}'
        )
    return [(file, targets[stars]) for stars, file in sources.items()]


def _files(pattern: str, root: Path) -> list[Path]:
    """The files that match a path with wildcards, sorted by name. Raises UserError if there are none."""
    path = _path(pattern, root)
    if (found := _with_suffix(path)) is not None:
        return [found]
    start = f'relative paths start at --data.root, else ${ROOT_VARIABLE}, else data/'
    if not _WILDCARD.search(pattern):
        raise UserError(f'{no_such_file(path)}; {start}')
    inside = Path(glob.escape(str(root)), _expanded(pattern))
    files = sorted({Path(file) for file in glob.glob(str(inside), recursive=True) if os.path.isfile(file)})
    if not files:
        raise UserError(f'{path} matches no file; {start}')
    return files


def _with_suffix(path: Path) -> Path | None:
    """The file of a path or, if there is none, the same compressed."""
    return next((file for suffix in ('', *SUFFIXES) if (file := Path(f'{path}{suffix}')).is_file()), None)


def _path(path: str, root: Path) -> Path:
    return Path(root, _expanded(path))


def _expanded(path: str) -> str:
    return os.path.expanduser(path.strip())


def _wildcard(pattern: str, file: Path, root: Path) -> tuple[str, ...]:
    """What the wildcards of a pattern stand for in a file's path."""
    path = _path(pattern, root)
    if file == _with_suffix(path):
        return ()
    parts = _WILDCARD.split(str(path))
    any_folders = '((?:.*/)?)'
    shapes = [re.escape(part) for part in parts]
    shapes[1::2] = [any_folders if sign == '**/' else '([^/]*)' for sign in parts[1::2]]
    found = re.fullmatch(''.join(shapes), str(file))
    return found.groups() if found else (str(file),)


def _columns(name: str) -> tuple[str, tuple[int, int]]:
    """`pairs.tsv#3,1` as its path and its columns."""
    path, sign, columns = name.rpartition('#')
    if not sign or content_suffix(Path(path)) != '.tsv':
        return name, (1, 2)
    found = re.fullmatch(r'([1-9]\d*),([1-9]\d*)', columns)
    if not found:
        raise UserError(f'corpus {name!r}: got the columns {columns!r}, expected two numbers, as in pairs.tsv#1,2')
    return path, (int(found[1]), int(found[2]))

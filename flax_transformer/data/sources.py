"""A corpus by its name: text files, TensorFlow Datasets, sacrebleu's test sets, or number words."""

import os
import re
from pathlib import Path

from flax_transformer.config import DataConfig
from flax_transformer.data.corpus import Corpus, Pairs
from flax_transformer.data.number_words import NumberWords
from flax_transformer.data.sacrebleu_source import read_sacrebleu
from flax_transformer.data.table_files import JsonLines, TsvFiles
from flax_transformer.data.text_files import AlignedFiles, packed_or_plain, read_text_files
from flax_transformer.data.tfds_source import TfdsCorpus
from flax_transformer.errors import UserError

ROOT_VARIABLE = 'FLAX_TRANSFORMER_DATA'
Languages = tuple[str, str]  # of the source, of the target


def data_root(config: DataConfig) -> Path:
    """The folder where relative paths start: data.root, else $FLAX_TRANSFORMER_DATA, else data/."""
    return Path(config.root or os.environ.get(ROOT_VARIABLE) or 'data').expanduser()


def read_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Pairs:
    """The sentence pairs of a corpus, in memory; DataConfig lists the forms of a name.

    Raises UserError where it cannot be read. `languages` are by default those of the config.
    """
    if name.startswith('sacrebleu:'):
        return read_sacrebleu(name)
    source, *targets = name.split(',')
    if len(targets) > 1 and '#' not in name:
        paths = [_path(part, config) for part in (source, *targets)]
        sources, first, *others = (read_text_files(paths[0], path).targets for path in paths)
        return Pairs(sources, first, tuple(others))
    return open_corpus(name, config, languages).read()


def open_corpus(name: str, config: DataConfig, languages: Languages | None = None) -> Corpus:
    """The corpus of a name, to be read piece by piece. Raises UserError where there is none."""
    languages = languages or (config.source_language, config.target_language)
    if name.startswith('number_words:'):
        return NumberWords(name, config, languages)
    if name.startswith('tfds:'):
        return TfdsCorpus(name, data_root(config), languages)
    if '{lang}' in name:
        files = _aligned([name.replace('{lang}', language) for language in languages], config)
        return AlignedFiles(name, files, {'languages': languages})
    path, columns = _columns(name)
    kind = packed_or_plain(Path(path))
    if kind == '.tsv' and ',' not in path:
        return TsvFiles(name, _files(path, config), columns)
    if kind == '.jsonl' and ',' not in path:
        return JsonLines(name, _files(path, config), languages)
    if name.count(',') == 1:
        return AlignedFiles(name, _aligned(name.split(','), config))
    raise UserError(
        f'corpus {name!r}: expected a path with {{lang}} in it, two paths with a comma between them, a .tsv or .jsonl '
        'file, tfds:NAME/CONFIG:SPLIT, or number_words:train (for evaluation also sacrebleu:TESTSET/SOURCE-TARGET, and '
        'paths of several references)'
    )


def _aligned(patterns: list[str], config: DataConfig) -> list[tuple[Path, Path]]:
    """The files of both sides that belong together: what `*` stands for must be the same on both."""
    sources, targets = (_files(pattern, config) for pattern in patterns)
    both = [
        [_wildcard(pattern, file, config) for file in files]
        for pattern, files in zip(patterns, (sources, targets), strict=True)
    ]
    if both[0] != both[1]:
        alone = sorted('*'.join(parts) for parts in set(both[0]) ^ set(both[1]))
        raise UserError(
            f'{patterns[0]!r} matches {len(sources)} files, {patterns[1]!r} matches {len(targets)}; expected the same '
            f'parts on both sides, but these are on one alone: {", ".join(alone[:5])}'
        )
    return list(zip(sources, targets, strict=True))


def _files(pattern: str, config: DataConfig) -> list[Path]:
    """The files that a path with wildcards stands for, in the order of their names; all are there."""
    path = _path(pattern, config)
    if not _has_wildcard(pattern):
        if not path.is_file():
            what = 'is a folder, not a file' if path.is_dir() else 'does not exist'
            hint = '' if path.parent.is_dir() else f' (nor does the folder {path.parent})'
            raise UserError(
                f'{path} {what}{hint}; relative paths start at --data.root, else ${ROOT_VARIABLE}, else data/'
            )
        return [path]
    root = Path(path.anchor) if path.is_absolute() else Path()
    files = sorted(file for file in root.glob(str(path.relative_to(path.anchor))) if file.is_file())
    if not files:
        raise UserError(
            f'{path} matches no file; relative paths start at --data.root, else ${ROOT_VARIABLE}, else data/'
        )
    return files


def _path(path: str, config: DataConfig) -> Path:
    return data_root(config) / Path(path.strip()).expanduser()


def _has_wildcard(pattern: str) -> bool:
    return any(sign in pattern for sign in '*?[')


def _wildcard(pattern: str, file: Path, config: DataConfig) -> tuple[str, ...]:
    """What the wildcards of a pattern stand for in a file's path."""
    if not _has_wildcard(pattern):
        return ()
    parts = re.split(r'(\*+|\?|\[[^\]]*\])', str(_path(pattern, config)))
    shape = ''.join(f'({".*" if i % 2 else re.escape(part)})' for i, part in enumerate(parts))
    found = re.fullmatch(shape, str(file))
    return found.groups()[1::2] if found else (str(file),)


def _columns(name: str) -> tuple[str, tuple[int, int]]:
    """`pairs.tsv#3,1` as its path and its columns."""
    path, sign, columns = name.partition('#')
    if not sign:
        return name, (1, 2)
    found = re.fullmatch(r'([1-9]\d*),([1-9]\d*)', columns)
    if not found:
        raise UserError(f'corpus {name!r}: got the columns {columns!r}, expected two numbers, as in pairs.tsv#1,2')
    return path, (int(found[1]), int(found[2]))

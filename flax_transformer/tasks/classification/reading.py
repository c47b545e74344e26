"""Labeled texts by name: tables, JSON lines, folders of files by label, TensorFlow Datasets, generated opinions."""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.quiet import say
from flax_transformer.data.lines import content_suffix, lines_of, utf8_fault
from flax_transformer.data.named_files import columns_of, data_root, matching_files, named_paths, path_below
from flax_transformer.data.tables import csv_rows, named_columns

from .config import ClassificationDataConfig

# What a header line may call the columns.
LABEL_NAMES = {'label', 'class', 'category', 'sentiment', 'topic', 'intent', 'emotion', 'target', 'kategorie', 'klasse'}
TEXT_NAMES = {'text', 'sentence', 'content', 'review', 'message', 'comment', 'tweet', 'question', 'satz'}
_PLACES = 5  # further ones with a fault that a message names


class Examples(NamedTuple):
    """Labeled texts, lists of equal length."""

    texts: list[str]
    labels: list[str]
    places: list[str]  # messages name them: 'train.tsv:12'


class _Fault(Exception):
    """What is wrong with one example, in a phrase that is the same for all that have the same fault."""


Example = tuple[str, str]  # text and label
Read = Callable[[], Example]  # raises _Fault


def read_examples(source: str, data: ClassificationDataConfig) -> Examples:
    """The examples of a source; ClassificationDataConfig lists the forms of its name.

    Raises one UserError for all examples that cannot be read, with their places, or if there are none. A text may be
    empty, a label not; spaces around a label are dropped, further white space in it becomes one space, and blank lines
    of a file are passed over.
    """
    examples = Examples([], [], [])
    faults: dict[str, list[str]] = {}
    for place, read in _open(source, data):
        try:
            text, label = read()
        except _Fault as fault:
            faults.setdefault(str(fault), []).append(place)
            continue
        for column, value in zip(examples, (text, label, place), strict=True):
            column.append(value)
    if faults:
        raise UserError('\n'.join(_described(fault, places) for fault, places in faults.items()))
    if not examples.texts:
        raise UserError(f'{source} is empty; expected at least one labeled text')
    return examples


def chosen(examples: Examples, is_chosen: np.ndarray) -> Examples:
    """The examples that are marked, [examples] bool."""
    rows = np.flatnonzero(is_chosen)
    return Examples(*([column[i] for i in rows] for column in examples))


def test_files(data: ClassificationDataConfig) -> Iterable[Path]:
    """The files, or the folder, that `read_examples` opens for data.test, whether or not they exist."""
    root = data_root(data.root)
    if data.test.startswith('opinions:'):
        return ()
    if data.test.startswith('tfds:'):
        from flax_transformer.data.tfds_builders import builder_path

        return (builder_path(data.test, root),)
    return named_paths(columns_of(data.test)[0], root)


def _described(fault: str, places: list[str]) -> str:
    first, *others = places
    if not others:
        return f'{first}: {fault}'
    shown = [*others[:_PLACES], *(['...'] if len(others) > _PLACES else [])]
    return f'{first}: {fault} (and {", ".join(shown)}: {len(places):,} in all)'


def _open(source: str, data: ClassificationDataConfig) -> Iterator[tuple[str, Read]]:
    """The place of each example, and the function that reads it."""
    root = data_root(data.root)
    if source.startswith('opinions:'):
        return _opinions(source)
    if source.startswith('tfds:'):
        return _tfds_examples(source, root)
    path, columns = columns_of(source)
    suffix = content_suffix(Path(path))
    if suffix in ('.tsv', '.csv', '.jsonl'):
        read_file = _json_lines if suffix == '.jsonl' else partial(_table, columns=None if path == source else columns)
        return itertools.chain.from_iterable(map(read_file, matching_files(path, root)))
    folder = path_below(source, root)
    if folder.is_dir():
        return _folder(folder)
    if not suffix:
        matching_files(source, root)  # if nothing is there, says where it was looked for
    raise UserError(
        f'{source!r}: expected a .tsv or .csv file with label and text in its columns, a .jsonl file with '
        '{"label": ..., "text": ...} on each line, a folder FOLDER/LABEL/*.txt, tfds:NAME:SPLIT, or opinions:train'
    )


def _json_lines(file: Path) -> Iterator[tuple[str, Read]]:
    for number, line in _lines_with_text(file):
        yield f'{file}:{number}', partial(_json_row, line)


def _table(file: Path, columns: tuple[int, int] | None) -> Iterator[tuple[str, Read]]:
    """The rows of a table; `columns` None: those that a header names, else the first two."""
    is_csv = content_suffix(file) == '.csv'
    rows = csv_rows(file) if is_csv else _lines_with_text(file)
    for index, (number, row) in enumerate(rows):
        if not index:
            cells = row if is_csv else row.decode('utf-8', 'replace').split('\t')
            named = named_columns(cells, LABEL_NAMES, TEXT_NAMES)
            if named:
                label, text = columns or named
                say(f'{file}: its first line is a header: the label is in column {label}, the text in {text}')
                columns = None if (label, text) == (1, 2) and len(cells) == 2 else (label, text)
                continue
        yield f'{file}:{number}', partial(_cells, row, columns)


def _lines_with_text(file: Path) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(itertools.chain.from_iterable(lines_of(file)), start=1):
        if line.strip():
            yield number, line


def _cells(row: bytes | list[str], columns: tuple[int, int] | None) -> Example:
    """An example of a line, or of the cells of CSV; without columns, a line's first tab alone separates cells."""
    label, text = columns or (1, 2)
    separated = ''
    if isinstance(row, bytes):
        row = _decoded(row).split('\t', -1 if columns else 1)
        separated = ', separated by tabs'
    if len(row) < max(label, text):
        expected = f'the label in column {label} and the text in column {text}{separated}'
        raise _Fault(f'got {len(row)} columns; expected {expected}')
    return row[text - 1].replace('\r\n', ' ').replace('\n', ' '), _label(row[label - 1])


def _json_row(line: bytes) -> Example:
    try:
        row = parse_json(line)
    except UnicodeDecodeError:
        _decoded(line)  # reports the byte
        raise
    except ValueError:
        row = None
    if not isinstance(row, dict) or not isinstance(row.get('text'), str) or 'label' not in row:
        raise _Fault('expected a JSON object with "label" and "text", the text in quotation marks')
    label = _json_label(row['label'])
    try:
        f'{label}{row["text"]}'.encode()
    except UnicodeEncodeError:
        raise _Fault('half a surrogate pair, which UTF-8 cannot hold') from None
    return row['text'].replace('\n', ' '), label


def _json_label(label: Any) -> str:
    if isinstance(label, str):
        return _label(label)
    if isinstance(label, bool):
        return json.dumps(label)
    if isinstance(label, int):
        return str(label)
    if isinstance(label, float) and math.isfinite(label):
        return f'{label:.15g}'
    if isinstance(label, list):
        raise _Fault('a list of labels; expected one label for each text')
    raise _Fault('the label is no text, number, true or false')


def _folder(folder: Path) -> Iterator[tuple[str, Read]]:
    """A text in each file, whose folder is named after its label."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith('.'))
    if not classes:
        raise UserError(f'{folder} has no folders in it; expected one for each label, with .txt files')
    for own in classes:
        files = sorted(file for file in own.iterdir() if content_suffix(file) == '.txt' and file.is_file())
        if not files:
            raise UserError(f'{own} has no .txt files; expected the texts of the label {own.name!r} there')
        for file in files:
            yield str(file), partial(_whole, file, own.name)


def _whole(file: Path, label: str) -> Example:
    lines = itertools.chain.from_iterable(lines_of(file))
    text = ' '.join(map(_decoded, lines))
    return text.strip(), _label(label)


def _opinions(source: str) -> Iterator[tuple[str, Read]]:
    from .opinions import read_opinions

    examples = zip(*read_opinions(source.removeprefix('opinions:')), strict=True)
    for number, example in enumerate(examples, start=1):
        yield f'{source}, example {number}', partial(tuple, example)


def _tfds_examples(source: str, root: Path) -> Iterator[tuple[str, Read]]:
    from flax_transformer.data.tfds_builders import TfdsSplit

    split = TfdsSplit(source, root)
    keys = _tfds_keys(source, split.info)
    names = split.info.features[keys[1]].names
    for number, row in enumerate(itertools.chain.from_iterable(split.rows()), start=1):
        yield f'{source}, example {number}', partial(_tfds_row, row, keys, names)


def _tfds_keys(source: str, info: Any) -> tuple[str, str]:
    """The features that are text and label: those that the builder says, else the only ones of their kind."""
    from tensorflow_datasets.core import features

    keys: list[str] = []
    for kind in (features.Text, features.ClassLabel):
        names = [name for name, feature in info.features.items() if isinstance(feature, kind)]
        said = [name for name in names if name in (info.supervised_keys or ())]
        if len(said or names) != 1:
            got = ', '.join(f'{name} ({type(feature).__name__})' for name, feature in info.features.items())
            raise UserError(f'corpus {source!r} has the features {got}; expected one Text and one ClassLabel')
        keys += said or names
    return tuple(keys)


def _tfds_row(row: Any, keys: tuple[str, str], names: list[str]) -> Example:
    text, label = keys
    number = row[label].int64_list.value[0]
    if not 0 <= number < len(names):
        raise _Fault('an example without a label')
    return _decoded(row[text].bytes_list.value[0]).replace('\n', ' '), _label(names[number])


def _label(text: str) -> str:
    label = ' '.join(text.split())  # a line break in a label of JSON would split the lines that show it
    if not label:
        raise _Fault('the label is empty')
    return label


def _decoded(line: bytes) -> str:
    try:
        return line.decode('utf-8')
    except UnicodeDecodeError as error:
        raise _Fault(utf8_fault(error)) from None

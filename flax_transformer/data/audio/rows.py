"""The rows of a manifest: tables, JSON lines, folders in LibriSpeech's layout, and a selection of them."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from flax_transformer.common.errors import BadInput, UserError, nearest
from flax_transformer.common.json_text import parse_json
from flax_transformer.data.lines import content_suffix, read_lines
from flax_transformer.data.named_files import matching_files, named_paths, path_below

PATHS = ('path', 'file', 'audio', 'audio_filepath', 'file_name')  # names of the column with each recording's path
_AUDIO = ('.aif', '.aiff', '.flac', '.mp3', '.oga', '.ogg', '.opus', '.wav')
MOST_FAULTS = 10  # that a message lists


class Row(NamedTuple):
    """A recording as a manifest lists it."""

    place: str  # its file and line, such as 'index.tsv:12'
    folder: Path  # where its path starts
    name: str  # the path
    columns: dict[str, str]
    not_text: Mapping[str, str] = MappingProxyType({})  # columns of JSON with null, NaN, a boolean or a list, as JSON

    def cell(self, column: str) -> str:
        """The text in a column. Raises BadInput if the row has none."""
        if column in self.not_text:
            raise BadInput(f'{self.place}: {column} is {self.not_text[column][:40]}; expected a string')
        if column not in self.columns:
            raise BadInput(f'{self.place}: got the columns {", ".join(self.columns)}; expected {column}')
        return self.columns[column]

    @property
    def path(self) -> Path:
        return self.folder / self.name


class Condition(NamedTuple):
    """The values that a column must have, or must not."""

    column: str
    is_among: bool
    values: tuple[str, ...]

    def holds(self, row: Row) -> bool:
        return (row.columns.get(self.column, '') in self.values) == self.is_among

    def __str__(self) -> str:
        return f'{self.column}{"=" if self.is_among else "!="}{",".join(self.values)}'


class Spec(NamedTuple):
    """The parts of a manifest's name, as in `index.tsv?split=train&speaker!=lucas#digit`."""

    path: str
    conditions: tuple[Condition, ...]
    text: str  # column of the text; '' if it has one of the usual names

    @classmethod
    def parsed(cls, spec: str) -> 'Spec':
        """The parts. Raises UserError for a malformed condition."""
        rest, _, text = spec.partition('#')
        path, _, query = rest.partition('?')
        return cls(path, tuple(_condition(part, spec) for part in query.split('&') if query), text)


def _condition(part: str, spec: str) -> Condition:
    found = re.fullmatch(r'([^=!]+)(!?=)(.*)', part)
    if not found:
        raise UserError(
            f'{spec}: got the condition {part!r}; expected COLUMN=VALUE or COLUMN!=VALUE, several joined by &'
        )
    return Condition(found[1], found[2] == '=', tuple(found[3].split(',')))


def manifest_paths(spec: str, root: Path) -> Iterator[Path]:
    """The files, or the folder, that the manifest of this name is read from."""
    return named_paths(Spec.parsed(spec).path, root)


def read_rows(spec: Spec, root: Path) -> list[Row]:
    """All rows of the files that a spec names for which its conditions hold, at least one. Raises UserError."""
    rows = list(_all_rows(spec.path, root))
    if not rows:
        raise UserError(f'{spec.path} lists no recordings; expected at least one')
    for condition in spec.conditions:
        rows = _selected(rows, condition, spec.path)
    return rows


def raise_faults(faults: list[str], total: int, what: str) -> None:
    """Raises a UserError that lists the first MOST_FAULTS faults, if there are any."""
    if faults:
        more = f'\nand {len(faults) - MOST_FAULTS:,} more' if len(faults) > MOST_FAULTS else ''
        listed = '\n'.join(faults[:MOST_FAULTS])
        raise UserError(f'{len(faults):,} of {total:,} {what} cannot be used; correct or remove them:\n{listed}{more}')


def column_among(names: tuple[str, ...], columns: Iterable[str], place: str, remedy: str = '') -> str:
    """The first of the names that is a column. Raises UserError if none is."""
    columns = list(columns)
    for name in names:
        if name in columns:
            return name
    wanted = names[0] if len(names) == 1 else f'one of {", ".join(names)}'
    raise UserError(f'{place}: got the columns {", ".join(columns) or "(none)"}; expected {wanted}{remedy}')


def _selected(rows: list[Row], condition: Condition, path: str) -> list[Row]:
    known = list(dict.fromkeys(name for row in rows for name in row.columns))
    if condition.column not in known:
        hint = nearest(condition.column, known)
        raise UserError(f'{path}: no column is named {condition.column!r}; expected one of {", ".join(known)}.{hint}')
    kept = [row for row in rows if condition.holds(row)]
    if not kept:
        seen = list(dict.fromkeys(row.columns.get(condition.column, '') for row in rows))
        values = ', '.join(map(repr, seen[:8])) + ', ...' * (len(seen) > 8)
        raise UserError(f'{path}: {condition} leaves no recording; the column has {values}')
    return kept


def _all_rows(path: str, root: Path) -> Iterator[Row]:
    if (folder := path_below(path, root)).is_dir():
        tables = [file for file in sorted(folder.iterdir()) if content_suffix(file) in ('.tsv', '.jsonl')]
        if len(tables) == 1:
            yield from _all_rows(str(tables[0].absolute()), root)
        else:
            yield from _librispeech_rows(folder) if any(folder.rglob('*.trans.txt')) else _rows_by_name(folder)
        return
    suffix = content_suffix(Path(path))
    if suffix not in ('.tsv', '.jsonl'):
        matching_files(path, root)  # if nothing is there, says where it was looked for
        raise UserError(
            f'{path!r}: expected a .tsv file with a header (path, text, speaker), a .jsonl file with those keys, or a '
            "folder in LibriSpeech's layout, or of WORD/*.wav"
        )
    for file in matching_files(path, root):
        yield from (_table_rows if suffix == '.tsv' else _json_rows)(file)


def _table_rows(file: Path) -> Iterator[Row]:
    header, *lines = read_lines(file) or ['']
    names = [name.strip() for name in header.split('\t')]
    repeated, count = next(iter(Counter(filter(None, names)).most_common(1)), ('', 0))
    if count > 1:
        raise UserError(f'{file}:1: {count} columns are named {repeated}; expected one: rename the others')
    path = column_among(PATHS, names, f'{file}:1')
    faults = []
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        cells = line.split('\t')
        if len(cells) != len(names):
            faults.append(f'{file}:{number}: got {len(cells)} cells; expected {len(names)}, as in the header')
            continue
        columns = dict(zip(names, cells, strict=True))
        yield Row(f'{file}:{number}', file.parent, columns[path], columns)
    raise_faults(faults, len(lines), 'rows')


def _json_rows(file: Path) -> Iterator[Row]:
    faults = []
    lines = read_lines(file)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line.encode())
        except ValueError:
            row = None
        if not isinstance(row, dict):
            faults.append(f'{file}:{number}: expected a JSON object with a path and a text')
            continue
        columns = {name: str(value) for name, value in row.items() if isinstance(value, str | int | float)}
        try:
            path = column_among(PATHS, columns, f'{file}:{number}')
        except UserError as error:
            faults.append(str(error))
            continue
        not_text = {
            name: json.dumps(value)
            for name, value in row.items()
            if isinstance(value, bool)
            or not isinstance(value, str | int | float)
            or (isinstance(value, float) and not math.isfinite(value))  # Python reads NaN, which JSON does not have
        }
        yield Row(f'{file}:{number}', file.parent, columns[path], columns, not_text)
    raise_faults(faults, len(lines), 'rows')


def _librispeech_rows(folder: Path) -> Iterator[Row]:
    for file in sorted(folder.rglob('*.trans.txt')):
        present = {
            audio.stem: audio.name
            for audio in sorted(file.parent.iterdir(), key=lambda audio: (audio.suffix.lower() == '.flac', audio.name))
            if audio.suffix.lower() in _AUDIO  # not the .txt or .json that is often next to a recording
        }
        for number, line in enumerate(read_lines(file), start=1):
            name, _, text = line.strip().partition(' ')
            if name:
                columns = {'path': f'{name}.flac', 'text': text.strip(), 'speaker': name.partition('-')[0]}
                yield Row(f'{file}:{number}', file.parent, present.get(name, columns['path']), columns)


def _rows_by_name(folder: Path) -> Iterator[Row]:
    """Recordings with a .txt of the same name, or in a folder that is named after what is said."""
    files = [file for file in sorted(folder.rglob('*')) if file.suffix.lower() in _AUDIO]
    if not files:
        raise UserError(
            f'{folder} has no recordings in it or below; expected WORD/*.wav, *.wav and *.txt, a table (path, text), '
            "or LibriSpeech's layout, SPEAKER/CHAPTER/*.trans.txt; write the segments of Kaldi to a .jsonl file with "
            'audio_filepath, offset, duration and text'
        )
    for file in files:
        text = file.with_suffix('.txt')
        said = ''
        if text.is_file():
            said = ' '.join(read_lines(text))
        elif file.parent != folder:
            said = file.parent.name
        name = str(file.relative_to(folder))
        yield Row(str(file), folder, name, {'path': name, 'text': said})

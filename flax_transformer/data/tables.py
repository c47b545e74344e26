"""Tables of cells: CSV (RFC 4180), and which columns a header line names."""

import csv
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

from flax_transformer.common.errors import UserError

from .lines import each_line

SIGNS = ',;\t'  # that separate cells; spreadsheets in many languages write the second


def csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The number of each row's first line, and its cells, without rows that are blank.

    A cell in quotes may have separators and line breaks; two quotes stand for one. The separator is the one of SIGNS
    that the first row has most of.
    """
    lines = (f'{line}\n' for line in each_line(file, is_csv=True))
    first = next(lines, '')
    outside = ''.join(first.split('"')[::2])
    reader = csv.reader(chain([first], lines), delimiter=max(SIGNS, key=outside.count), strict=True)
    try:
        number = 1
        for cells in reader:
            if any(map(str.strip, cells)):
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f'{file}, line {number}: {error}; expected CSV, with each quote within quotes doubled'
        ) from None


def named_columns(cells: Sequence[str], *names: Collection[str]) -> tuple[int, ...] | None:
    """For each set of names the column, from 1, that has one of them; None unless each has exactly one.

    >>> named_columns(['ID', 'Review', 'Sentiment'], {'label', 'sentiment'}, {'text', 'review'})
    (3, 2)
    """
    headings = [cell.strip().strip('"').casefold() for cell in cells]
    columns = [[i for i, heading in enumerate(headings, start=1) if heading in own] for own in names]
    if any(len(own) != 1 for own in columns):
        return None
    return tuple(column for own in columns for column in own)

"""Labelled texts from files."""

import os
from pathlib import Path
from typing import NamedTuple

from flax_transformer.common.errors import BadInput
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.classification.config import ClassificationDataConfig


class Examples(NamedTuple):
    """Labelled texts, three lists of equal length."""

    texts: list[str]
    labels: list[str]
    places: list[str]  # where each comes from, for messages: 'train.tsv:12'


def read_examples(source: str, data: ClassificationDataConfig) -> Examples:
    """The examples of a source. Raises UserError if it cannot be read."""
    root = Path(os.path.expanduser(data.root or os.environ.get('FLAX_TRANSFORMER_DATA') or 'data'))
    found = Examples([], [], [])
    for number, line in enumerate(read_lines(root / source), start=1):
        label, tab, text = line.partition('\t')
        if not tab:
            raise BadInput(f'{source}:{number}: expected label<TAB>text, got {line[:60]!r}')
        for column, value in zip(found, (text, label, f'{source}:{number}'), strict=True):
            column.append(value)
    return found

"""Embeddings that start from word vectors in a file (`data.vector_files`)."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import no_such_file
from flax_transformer.data.named_files import ROOT_VARIABLE, data_root, existing_file, path_below
from flax_transformer.data.vector_files import read_vectors

_FIELD = 'model.embedding_from'
_WORD_BEGIN = '\u2581'  # SentencePiece's mark of a space
_NO_TOKEN = re.compile('<(0x[0-9A-F]{2}|/?s|unk|pad)>')  # pieces for bytes, and for control
_SHOWN = 5  # tokens without a vector that a message names


class PretrainedRows(NamedTuple):
    """Rows of an embedding table."""

    ids: np.ndarray  # [N] int32, the tokens
    rows: np.ndarray  # [N, D] float32, their vectors


def pretrained_rows(
    name: str, root: str | None, tokens: Sequence[str | None], width: int, *, say: Callable[[str], None]
) -> PretrainedRows:
    """The vectors of the tokens that a file knows; says how many it lacks.

    A token is a word, or a SentencePiece piece, whose word-begin mark does not count. If the file lacks it as it is, it
    gets the vector of its lower case.

    `tokens` has one for each id, None for what is no word. Raises UserError if there is no such file, it cannot be
    read, has other vectors than of `width` values, or knows none of the tokens.
    """
    path = path_below(name, data_root(root))
    file = existing_file(path)
    if file is None:
        start = f'relative paths start at --data.root, else ${ROOT_VARIABLE}, else data/'
        raise UserError(f'{_FIELD}: {no_such_file(path)}; {start}')
    spelled = [
        None if token is None or _NO_TOKEN.fullmatch(token) else token.removeprefix(_WORD_BEGIN) for token in tokens
    ]
    wanted = {form for word in spelled if word for form in (word, word.lower())}
    words, matrix = _read(file, wanted)
    if matrix.shape[1] != width:
        raise UserError(
            f'{_FIELD}: {file} has vectors of {matrix.shape[1]} values, but model.d_model={width}; set --model.d-model '
            f'{matrix.shape[1]}'
        )
    places = {word: number for number, word in enumerate(words)}
    found = [None if not word else places.get(word, places.get(word.lower())) for word in spelled]
    known = [token for token, place in enumerate(found) if place is not None]
    if not known:
        raise UserError(f'{_FIELD}: {file} has none of the {len(tokens):,} tokens of the vocabulary')
    lacking = [token for word, place, token in zip(spelled, found, tokens, strict=True) if word and place is None]
    shown = f' ({", ".join(lacking[:_SHOWN])}{", ..." if len(lacking) > _SHOWN else ""})' if lacking else ''
    say(f'{name}: vectors of {len(known):,} tokens; {len(lacking):,} start at random{shown}')
    return PretrainedRows(np.array(known, np.int32), matrix[[found[token] for token in known]])


def _read(file: Path, wanted: set[str]) -> tuple[list[str], np.ndarray]:
    try:
        return read_vectors(file, only=wanted)
    except UserError as error:
        raise UserError(f'{_FIELD}: {error}') from None


def with_pretrained(table: np.ndarray, pretrained: PretrainedRows) -> np.ndarray:
    """A fresh table [V, D] with the pretrained rows in it, all scaled by one factor to the size of the table's values.

    The model then begins as it would from random numbers: what it multiplies embeddings by and adds to them fits.
    """
    table = np.array(table)
    size = np.sqrt(np.mean(np.square(pretrained.rows, dtype=np.float64)))
    scale = np.sqrt(np.mean(np.square(table, dtype=np.float64))) / size if size else 1.0
    table[pretrained.ids] = pretrained.rows * np.float32(scale)
    return table

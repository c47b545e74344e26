"""Word vectors in files: word2vec's two formats and GloVe's, read strictly; and embeddings that start from them.

binary: `V D\\n`, then for each word its UTF-8, a space and D little-endian float32; a line break after each is optional
text:   `V D\\n`, then for each word a line: the word, which may hold spaces, and D numbers
glove:  the same lines without the first one

A file may be compressed (.gz, .xz, .bz2, .zst).
"""

import io
import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import written_whole

from .lines import broken_file, compressing, content_suffix, lines_of, no_such_file, open_binary, utf8_fault
from .named_files import PATHS_START, data_root, existing_file, path_below

Format = Literal['binary', 'text', 'glove']
Invalid = Literal['refuse', 'replace']  # words that are not UTF-8: raise, or read with U+FFFD
_HEADER = re.compile(rb'\s*(\d{1,12})\s+([1-9]\d{0,5})\s*')
_INTEGERS = re.compile(rb'\s*[+-]?\d+(\s+[+-]?\d+)*\s*')  # a header gone wrong: vectors have fractions
_FLOAT = np.dtype('<f4')
_LONGEST_WORD = 4096  # bytes; without a space in so many, the file is not what its header says
_CHUNK = 1 << 20  # bytes
_NO_WORD = re.compile('[\\0-\\x20\\x7f\\ud800-\\udfff]')  # white space and control characters; lone surrogates
_NUMBER = re.compile(r'[-+.\deE]*\d[-+.\deE]*')
_FIELD = 'model.embedding_from'
_WORD_BEGIN = '\u2581'  # SentencePiece's mark of a space
_NO_TOKEN = re.compile('<(0x[0-9A-F]{2}|/?s|unk|pad)>')  # pieces for bytes, and for control
_OR_REPLACE = ", or, if words are cut within a character, give --invalid replace (invalid='replace')"
_SHOWN = 5  # tokens without a vector that a message names
_Entry = tuple[str, str, np.ndarray]  # the place, the word, the vector [D] float32


class VectorFile(NamedTuple):
    words: list[str]
    matrix: np.ndarray  # [V, D] float32


def read_vectors(
    file: Path, form: Format | None = None, *, only: Container[str] | None = None, invalid: Invalid = 'refuse'
) -> VectorFile:
    """The words and vectors of a file, in its order; of the words in `only` if that is given.

    Without a form: binary if the file is named so (.bin), else text with a first line of two numbers, or without. Some
    programs cut words within a character: `invalid` says what to do. Of words that then are the same, the first counts.
    Raises UserError, with line or word, for whatever is not as the form says.
    """
    file = Path(file)
    form = _form_of(file, form, otherwise=None)
    try:
        entries = _read_binary(file, invalid) if form == 'binary' else _read_text(file, form, invalid)
        return _gathered(file, entries, only)
    except broken_file() as error:
        raise UserError(f'{file} could not be read: {error}') from None


def _form_of(file: Path, form: Format | None, otherwise: Format | None) -> Format | None:
    if form not in (None, *get_args(Format)):
        raise UserError(f'form={form!r}: expected {", ".join(get_args(Format))}, or None to choose by the file')
    return form or ('binary' if content_suffix(file) == '.bin' else otherwise)


def _gathered(file: Path, entries: Iterator[_Entry], only: Container[str] | None) -> VectorFile:
    seen: dict[str, str] = {}
    words: list[str] = []
    rows: list[np.ndarray] = []
    width = 0
    for place, word, row in entries:
        if word in seen and '\ufffd' in word:
            continue
        if word in seen:
            raise UserError(f'{file}, {place}: {word!r} is also {seen[word]}; expected each word once')
        if not np.isfinite(row).all():
            got = row[~np.isfinite(row)][0]
            raise UserError(f'{file}, {place}: the vector of {word!r} has the value {got}')
        seen[word] = place
        width = len(row)
        if only is None or word in only:
            words.append(word)
            rows.append(row)
    if not seen:
        raise UserError(f'{file} has no vectors')
    return VectorFile(words, np.stack(rows) if rows else np.zeros((0, width), np.float32))


def _read_text(file: Path, form: Format | None, invalid: Invalid) -> Iterator[_Entry]:
    lines = chain.from_iterable(lines_of(file))
    first = next(lines, b'')
    header = None if form == 'glove' else _HEADER.fullmatch(first)
    if header is not None:
        count, width = map(int, header.groups())
    elif form == 'text' or (form is None and _INTEGERS.fullmatch(first)):
        raise _no_header(file, first)
    else:
        count = math.inf
        width = first.rstrip(b' ').count(b' ')
        lines = chain([first] if first else [], lines)
    number = 0
    for number, line in enumerate(lines, start=1):
        if number > count:
            raise _longer(file, count)
        if invalid == 'replace':
            line = line.decode('utf-8', 'replace').encode()
        yield _line(file, number + (header is not None), line, width)
    if header is not None and number < count:
        raise _shorter(file, number, count)


def _no_header(file: Path, line: bytes, hint: str = '') -> UserError:
    begin = repr(line[:40].decode('utf-8', 'replace'))
    sizes = 'the number of words and the width (1 to 999,999), such as `30000 100`'
    return UserError(f'{file} begins with {begin}, expected {sizes}{hint}')


def _longer(file: Path, count: int) -> UserError:
    return UserError(f'{file} goes on after the {count:,} words that its first line announces')


def _shorter(file: Path, number: int, count: int) -> UserError:
    return UserError(f'{file} ends after {number:,} of the {count:,} words that its first line announces')


def _line(file: Path, number: int, line: bytes, width: int) -> _Entry:
    place = f'line {number:,}'
    try:
        word, *numbers = line.rstrip(b' ').decode('utf-8').split(' ')
    except UnicodeDecodeError as error:
        fault = f"{utf8_fault(error)}, name word2vec's binary format .bin"
        raise UserError(f'{file}, {place}: {fault}{_OR_REPLACE}') from None
    more = max(len(numbers) - width, 0)
    if more and not any(map(_NUMBER.fullmatch, numbers[:more])):  # glove.840B has words with spaces, such as `. . .`
        word = ' '.join([word, *numbers[:more]])
        numbers = numbers[more:]
    if not word or len(numbers) != width or not width:
        raise UserError(
            f'{file}, {place}: got {len(numbers)} numbers after {word!r}, expected a word and {width or "its"} '
            'numbers, separated by spaces'
        )
    if _NO_WORD.search(word.replace(' ', '')):
        raise UserError(f'{file}, {place}: {word!r} is no word, with its control characters')
    try:
        with np.errstate(over='ignore'):  # an infinity is refused later
            return place, word, np.fromiter(map(float, numbers), np.float64, width).astype(np.float32)
    except ValueError as error:
        raise UserError(f'{file}, {place}: the vector of {word!r}: {error}') from None


def _read_binary(file: Path, invalid: Invalid) -> Iterator[_Entry]:
    with open_binary(file) as unbuffered, io.BufferedReader(unbuffered, _CHUNK) as opened:
        first = opened.readline(100)
        header = _HEADER.fullmatch(first)
        if header is None or not first.endswith(b'\n'):
            raise _no_header(file, first, "; is it word2vec's binary format?")
        count, width = map(int, header.groups())
        hint = f'is the width {width}, as the first line says?'
        for number in range(1, count + 1):
            place = f'word {number:,}'
            begin = islice(iter(partial(opened.read, 1), b''), _LONGEST_WORD)
            name = b''.join(takewhile(b' '.__ne__, begin))
            values = opened.read(width * _FLOAT.itemsize)

            if len(name) == _LONGEST_WORD:
                raise UserError(f'{file}, {place}: no space in {_LONGEST_WORD:,} bytes; {hint}')
            name = name.removeprefix(b'\n')
            if not name and not values:
                raise _shorter(file, number - 1, count)

            word = name.decode('utf-8', 'replace')
            is_cut = word.encode() != name and invalid == 'refuse'
            if not word or _NO_WORD.search(word) or is_cut:
                raise UserError(f'{file}, {place}: {name!r} is no word in UTF-8; {hint}{_OR_REPLACE}')
            if len(values) < width * _FLOAT.itemsize:
                raise UserError(f'{file} ends in the vector of {word!r}, word {number:,} of {count:,}')
            yield place, word, np.frombuffer(values, _FLOAT).astype(np.float32)
        if opened.read(_CHUNK).strip(b'\n'):
            raise _longer(file, count)


def write_vectors(file: Path, words: Sequence[str], matrix: np.ndarray, form: Format | None = None) -> None:
    """Writes words and their vectors [V, D] whole, as gensim does; reading them gives the same float32 to the bit.

    Without a form: binary if the file is named so (.bin), else text.
    """
    file = Path(file)
    form = _form_of(file, form, otherwise='text')
    for word in words:
        if not word or _NO_WORD.search(word):
            raise UserError(f'{word!r} cannot be written to {file}: expected valid Unicode without white space')
    matrix = np.ascontiguousarray(matrix, _FLOAT)
    try:
        with written_whole(file) as opened, compressing(opened, file.suffix) as out:
            if form != 'glove':
                out.write(b'%d %d\n' % matrix.shape)
            for word, row in zip(words, matrix, strict=True):
                if form == 'binary':
                    out.write(word.encode() + b' ' + row.tobytes())
                else:
                    out.write(f'{word} {" ".join(map(str, row))}\n'.encode())
    except OSError as error:
        raise UserError(f'{file} could not be written: {error.strerror}') from None


class PretrainedRows(NamedTuple):
    ids: np.ndarray  # [N] int32, the tokens
    rows: np.ndarray  # [N, D] float32, their vectors


def pretrained_rows(
    name: str, root: str | None, tokens: Sequence[str | None], width: int, *, say: Callable[[str], None]
) -> PretrainedRows:
    """The vectors of the tokens that a file knows, if need be by their lower case; says how many it lacks.

    `tokens` has one for each id: a word or a SentencePiece piece, whose word-begin mark does not count, or None.
    """
    path = path_below(name, data_root(root))
    file = existing_file(path)
    if file is None:
        raise UserError(f'{_FIELD}: {no_such_file(path)}; {PATHS_START}')
    words_of = (token if token and not _NO_TOKEN.fullmatch(token) else '' for token in tokens)
    spelled = [word.removeprefix(_WORD_BEGIN) for word in words_of]
    wanted = {form for word in spelled if word for form in (word, word.lower())}
    try:
        words, matrix = read_vectors(file, only=wanted)
    except UserError as error:
        raise UserError(f'{_FIELD}: {error}') from None
    if matrix.shape[1] != width:
        raise UserError(
            f'{_FIELD}: {file} has vectors of {matrix.shape[1]} values, but model.d_model={width}; set --model.d-model '
            f'{matrix.shape[1]}'
        )
    rows = {word: number for number, word in enumerate(words)}
    row_of = [rows.get(word, rows.get(word.lower())) if word else None for word in spelled]
    known = [token for token, row in enumerate(row_of) if row is not None]
    if not known:
        raise UserError(f'{_FIELD}: {file} has none of the {len(tokens):,} tokens of the vocabulary')
    lacking = [token for word, row, token in zip(spelled, row_of, tokens, strict=True) if word and row is None]
    shown = ', '.join(lacking[:_SHOWN] + ['...'] * (len(lacking) > _SHOWN)) or 'none'
    say(f'{name}: vectors of {len(known):,} tokens; {len(lacking):,} start at random ({shown})')
    return PretrainedRows(np.array(known, np.int32), matrix[[row_of[token] for token in known]])


def with_pretrained(table: np.ndarray, pretrained: PretrainedRows) -> np.ndarray:
    """A fresh table [V, D] with the pretrained rows in it, scaled by one factor to the size of the table's values.

    The model then begins as from random numbers: what it multiplies embeddings by and adds to them fits.
    """
    table = np.array(table)
    size = np.sqrt(np.mean(np.square(pretrained.rows, dtype=np.float64)))
    scale = np.sqrt(np.mean(np.square(table, dtype=np.float64))) / size if size else 1.0
    table[pretrained.ids] = pretrained.rows * np.float32(scale)
    return table

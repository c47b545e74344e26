"""Lines into and out of the commands: whole and in order, whatever their bytes and whatever interrupts.

They are text, JSON Lines, or what a person types.
"""

import codecs
import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from tqdm import tqdm

from flax_transformer.common.chunks import CHUNK
from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.files import lock, read_limited, write_whole
from flax_transformer.data.lines import MOST_LINE, bounded_lines
from flax_transformer.tasks.translation.glossary import are_phrases
from flax_transformer.text.tokenizer import as_text

from .options import note, progress_bar

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.inference.marked import Marked

CHUNK_BYTES = 1 << 24  # a chunk ends after so many, however few its lines are
KEPT = '. The lines written so far are kept'  # ends the message about a bad line
EXPECTED = 'expected {"text": "..."}, optionally with "prefix": "...", "required": ["..."] and "protect": ["..."]'
SLOW = 1.0  # seconds after which a wait is explained


def chunks(
    stream: Iterable[bytes],
    *,
    invalid: str = 'refuse',
    size: int = CHUNK,
    skip: int = 0,
    first: int = 1,
    place: str = 'input line',
    has_ends: bool = False,
) -> Iterator[list[str | bytes]]:
    """Yields up to `size` lines of UTF-8 at a time, fewer if they are long, after the first `skip`.

    A line that is not UTF-8 is yielded as bytes; with `refuse` it raises BadInput after the lines before it, with
    `place` and its number, counted from `first`. `has_ends`: with a byte order mark and the CR of CRLF.
    """
    chunk: list[str | bytes] = []
    num_bytes = 0
    number = first - 1
    for number, raw in enumerate(stream, start=first):
        if number <= skip:
            continue
        line = raw.removesuffix(b'\n')
        if not has_ends:
            line = line.removeprefix(codecs.BOM_UTF8 if number == 1 else b'').removesuffix(b'\r')
        try:
            chunk.append(line.decode('utf-8'))
        except UnicodeDecodeError as error:
            if invalid == 'refuse':
                yield chunk
                got = error.object[error.start]
                raise BadInput(
                    f'{place} {number}: byte 0x{got:02x} is not valid UTF-8; convert it, as by '
                    f'`iconv -f LATIN1 -t UTF-8`, or give --invalid replace{KEPT}'
                ) from None
            chunk.append(line)
        num_bytes += len(raw)
        if len(chunk) == size or num_bytes >= CHUNK_BYTES:
            yield chunk
            chunk = []
            num_bytes = 0
    if chunk:
        yield chunk
    if number < skip:
        raise UserError(f'--output has {skip} lines, the input {number}; give the input that it was begun with')


class LineWriter:
    """Writes whole lines to a new file, which no other process can write until then, or to standard output.

    Nothing is left of it if it raises before the first line.
    """

    def __init__(self, path: Path | None, *, resume: bool | None = None, source: bytes | None = None) -> None:
        """Continues after the lines in the file with `resume`; None: the command has no such option.

        `source` is what the lines are made from, or its begin: only lines made from the same are continued.
        """
        self.num_before = 0  # lines already in the file
        self._file: BinaryIO = sys.stdout.buffer
        self._mark: Path | None = None  # a file with what was hashed of the source, until the lines are whole
        if path is None:
            if getattr(sys.stdout, 'name', None) == os.devnull:  # `main` has found it closed
                raise UserError('standard output is closed; give --output')
            if resume:
                raise UserError('--resume continues a file: give it as --output')
            return
        if path.is_dir():
            raise UserError(f'{path} is a folder; expected a file as --output')
        if not resume and path.exists() and path.stat().st_size:
            to_resume = '' if resume is None else '--resume to continue after its last line, or '
            raise UserError(f'{path} is not empty; give {to_resume}another --output')
        self._path = path
        self._is_new = not path.exists()
        self._file = path.open('a+b')
        try:
            if path.is_file():
                lock(self._file.fileno())
        except BlockingIOError:
            self._file.close()
            raise UserError(f'{path} is being written by another process; give another --output') from None
        except OSError:  # no locks here
            pass
        if resume:
            self.num_before, end = _whole_lines(self._file)
            self._file.truncate(end)
        if source is not None and path.is_file():
            self._mark = path.with_name(f'{path.name}.source')
            self._check_source(source)

    def _check_source(self, source: bytes) -> None:
        if self.num_before and self._mark.exists():
            size, _, digest = read_limited(self._mark).decode().partition(' ')
            if digest != sha256(source[: int(size)]).hexdigest():
                self._file.close()
                raise UserError(f'{self._path} was begun from another input; give that, or another --output')
        write_whole(self._mark, f'{len(source)} {sha256(source).hexdigest()}')

    def __enter__(self) -> 'LineWriter':
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._file is sys.stdout.buffer:
            return
        is_empty = self._file.seek(0, os.SEEK_END) == 0
        if error and is_empty and self._is_new:
            self._path.unlink()
        if self._mark and (is_empty or not error):
            self._mark.unlink(missing_ok=True)
        self._file.close()

    def write(self, lines: list[str]) -> None:
        # A file's name may have bytes that are not UTF-8.
        self._file.write(''.join(line + '\n' for line in lines).encode('utf-8', 'backslashreplace'))
        self._file.flush()


def _whole_lines(file: BinaryIO) -> tuple[int, int]:
    count = end = 0
    file.seek(0)
    for line in file:
        if line.endswith(b'\n'):
            count += 1
            end += len(line)
    return count, end


def to_json(record: dict[str, Any]) -> str:
    return without_line_breaks(json.dumps(record, ensure_ascii=False))


def without_line_breaks(text: str) -> str:
    """The same JSON on one line, whatever a reader takes for a line end."""
    text = text.replace('\r', ' ')  # stands between values: within a string JSON has it escaped
    for character in '' if text.isascii() else '\x85\u2028\u2029':
        text = text.replace(character, f'\\u{ord(character):04x}')
    return text


class Record(NamedTuple):
    """A line to translate."""

    text: str
    replaced: bool = False  # the line was not valid UTF-8, or its text not valid Unicode: U+FFFD stands for the invalid
    prefix: str = ''  # what the translation begins with
    source: str = ''  # the JSON object as it came in; '' for a line of text
    required: tuple[str | tuple[str, ...], ...] = ()  # phrases, or alternatives, that the translation contains
    protect: tuple[str, ...] = ()  # texts that are not translated
    marked: 'Marked | None' = None  # the text of a document, with its tags


def read_records(
    chunks: Iterable[list[str | bytes]], form: str, done: int = 0, place: str = 'input line'
) -> Iterator[list[Record]]:
    """Yields the records of each chunk of lines; `done` lines came before them.

    A line is a text or, if the form is `jsonl`, a JSON object with a field `text`, a JSON string, or blank. Any other
    raises BadInput, with `place` and its number, after the records before it.
    """
    for chunk in chunks:
        records: list[Record] = []
        for number, line in enumerate(chunk, start=done + 1):
            try:
                records.append(_json_record(line) if form == 'jsonl' else Record(*as_text(line)))
            except ValueError as error:
                yield records
                raise BadInput(f'{place} {number} {error}{KEPT}') from None
        done += len(chunk)
        yield records


def write_record(record: Record, fields: dict[str, Any]) -> str:
    """The record's object as it came in, with more fields, on one line; they replace fields of the same name."""
    source = record.source or json.dumps({'text': record.text}, ensure_ascii=False)
    kept = [member for name, member in _members(source) if name not in fields]
    return without_line_breaks('{' + ', '.join([*kept, to_json(fields)[1:]]))


def _json_record(line: str | bytes) -> Record:
    line, replaced = as_text(line)
    if not line.strip():
        return Record('')
    try:
        fields = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(f'is not JSON ({error.msg}, character {error.pos + 1}); {EXPECTED}') from None
    except RecursionError:
        raise ValueError(f'is nested too deeply; {EXPECTED}') from None

    if isinstance(fields, str):
        fields = {'text': fields}
        line = f'{{"text": {line.strip()}}}'
    if not isinstance(fields, dict):
        raise ValueError(f'is no record: got {_kind(fields)}; {EXPECTED}')
    if 'text' not in fields:
        raise ValueError(f'is no record: there is no field "text"; {EXPECTED}')

    text = fields['text']
    prefix = '' if fields.get('prefix') is None else fields['prefix']
    for name, value in (('text', text), ('prefix', prefix)):
        if not isinstance(value, str):
            raise ValueError(f'is no record: got {_kind(value)} as "{name}"; {EXPECTED}')

    text, is_text_replaced = as_text(text)
    prefix, is_prefix_replaced = as_text(prefix)
    return Record(
        text,
        replaced or is_text_replaced or is_prefix_replaced,
        prefix,
        line,
        required=_phrases(fields, 'required'),
        protect=_phrases(fields, 'protect'),
    )


def _phrases(fields: dict[str, Any], name: str) -> tuple[Any, ...]:
    """The texts of a field; in `required`, each may be a list of alternatives. Raises ValueError for anything else."""
    value = fields.get(name)
    if value is None:
        return ()
    is_good = are_phrases(value)
    if name == 'protect':
        is_good = is_good and all(isinstance(phrase, str) for phrase in value)
    if not is_good:
        raise ValueError(f'is no record: "{name}" is no list of phrases; {EXPECTED}')
    return tuple(tuple(phrase) if isinstance(phrase, list) else phrase for phrase in value)


def _kind(value: Any) -> str:
    names = {dict: 'an object', list: 'a list', bool: 'true or false', type(None): 'null'}
    return names.get(type(value), 'a number')


def _refuse(word: str) -> None:
    raise ValueError(f'is not JSON ({word}); {EXPECTED}')


# Numbers are only copied, so their digits are not converted: 1e400 would become infinite, a long one be refused.
_DECODER = json.JSONDecoder(parse_int=lambda digits: 0, parse_float=lambda digits: 0.0, parse_constant=_refuse)


def _members(source: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each member of a valid JSON object."""
    begin = _skip(source, source.index('{') + 1)
    while source[begin] != '}':
        name, end = _DECODER.raw_decode(source, begin)
        _, end = _DECODER.raw_decode(source, _skip(source, end))
        yield name, source[begin:end]
        begin = _skip(source, end)


def _skip(source: str, begin: int) -> int:
    return re.compile(r'[ \t\r\n,:]*').match(source, begin).end()


def lines_from(
    stream: BinaryIO,
    options: Any,
    done: int,
    model: Callable[[str], Any],
    command: str,
    *,
    has_ends: bool = False,
) -> Iterator[list[str | bytes]]:
    """The lines of a command's input after the first `done`: chunks of the stream, or what a person types."""
    if options.input is None and stream.isatty():
        with explained_if_slow('compiling'):
            model('a')  # compiles before a person is asked
        return typed_lines(f'{getattr(model, "source_language", "")}> ', command)
    lines = bounded_lines(stream, MOST_LINE)
    return chunks(lines, invalid=options.invalid, size=1 if stream.isatty() else CHUNK, skip=done, has_ends=has_ends)


def bar_of_lines(options: Any) -> tqdm:
    """A bar, unless it would be drawn into the prompts, or into results on the same screen."""
    is_screen = (options.input is None and sys.stdin.isatty()) or (options.output is None and sys.stdout.isatty())
    return progress_bar(None, 'lines', is_shown=not is_screen)


def typed_lines(prompt: str, command: str = 'translate') -> Iterator[list[str | bytes]]:
    """Each line that is typed, as a list of one, until Ctrl-D."""
    with contextlib.suppress(ImportError):  # some systems lack it
        if sys.stdout.isatty():
            import readline  # noqa: F401 - from here on, input() has editing and a history
    note(f'type a line to {command}; Ctrl-D ends')
    try:
        while (line := _ask(prompt)) is not None:
            with explained_if_slow('compiling for lines of this length'):
                yield from chunks([line or b'\n'], invalid='replace')
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the message needs a line of its own
        raise
    print(file=sys.stderr)


def _ask(prompt: str) -> bytes | None:
    if not sys.stdout.isatty():  # input() would write its prompt there
        print(prompt, end='', file=sys.stderr, flush=True)
        return sys.stdin.buffer.readline() or None
    try:
        return input(prompt).encode('utf-8', 'surrogateescape')
    except EOFError:
        return None
    except UnicodeDecodeError as error:
        return error.object


@contextlib.contextmanager
def explained_if_slow(reason: str) -> Iterator[None]:
    timer = threading.Timer(SLOW, note, [f'{reason} ...'])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

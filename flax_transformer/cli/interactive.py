"""`translate` and `classify` for a person who types: a prompt, an answer to each line, a word where it takes long."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from flax_transformer.cli.lines import chunks
from flax_transformer.cli.options import note

SLOW = 1.0  # seconds after which a wait is explained


def typed_lines(prompt: str, command: str = 'translate') -> Iterator[list[str | bytes]]:
    """Each line that is typed, as a list of one, until Ctrl-D. Bytes that are not UTF-8 are left to the command."""
    with contextlib.suppress(ImportError):  # not on every system
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
    """A line; None at the end."""
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
    """Says what the block does if it takes longer than a person expects."""
    timer = threading.Timer(SLOW, note, [f'{reason} ...'])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

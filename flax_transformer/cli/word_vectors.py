"""What the commands about word vectors share: their first argument, a run or a file, and the words after it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flax_transformer.cli.options import parse, positional, read_run_config
from flax_transformer.common.errors import UserError

if TYPE_CHECKING:
    from flax_transformer.tasks.embeddings.vectors import Neighbour, WordVectors

T = TypeVar('T')


def parse_words(
    command: str, options: Callable[[], T], argv: list[str], *, words: str, count: int | None, description: str
) -> tuple[T, list[str]]:
    """The options of a command and the words after its first argument, a run or a file of vectors.

    Args:
      words: what they are, for messages: 'A B C'.
      count: how many are expected; None: one or more.
    """

    def defaults(name: str) -> T:
        if not Path(name).is_file():
            read_run_config(name, 'embeddings')  # for its errors: no run, or one of another task
        return options()

    found = parse(command, options, argv, first='RUN', description=description, default=defaults, most=None)
    given = positional(argv)[1:]
    if len(given) != count if count else not given:
        got = ' '.join(given) or 'nothing'
        raise UserError(f'{command}: got {got} after {argv[0]}, expected {words}: {command} RUN {words}')
    return found, given


def open_vectors(name: str, step: int | None = None) -> 'WordVectors':
    """The vectors of a run, `RUN` or `RUN@which`, or of a file."""
    from flax_transformer.tasks.embeddings.vectors import WordVectors

    return WordVectors.open(name, step=step)


def neighbour_lines(found: 'Sequence[Neighbour]') -> list[str]:
    """`score  word`, a line for each. Raises UserError if there is none."""
    if not found:
        raise UserError('no word is left: those asked about are no answer; expected a larger vocabulary or --among')
    return [f'{each.score:.4f}\t{each.word}' for each in found]

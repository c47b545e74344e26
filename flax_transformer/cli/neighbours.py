"""`flax-transformer neighbours RUN word ...`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flax_transformer.cli.options import parse, positional, read_run_config
from flax_transformer.common.errors import UserError

if TYPE_CHECKING:
    from flax_transformer.tasks.embeddings.vectors import Neighbour, WordVectors

T = TypeVar('T')
DESCRIPTION = """The words nearest to each word by the cosine of their vectors: `cosine<TAB>word`, nearest first. RUN is
a run of word vectors, one of its checkpoints (RUN@12000, RUN@best), or a file: word2vec's binary format if it is named
.bin, else its text format or GloVe's."""


@dataclass(frozen=True)
class NeighboursOptions:
    count: int = 10  # how many words to print
    among: int | None = None  # look only among so many words, the first of the vocabulary; None: all
    step: int | None = None  # the checkpoint of a run; None: the best, or training.average_last's mean


def main(argv: list[str]) -> None:
    options, words = parse_words(
        'neighbours', NeighboursOptions, argv, words='WORD ...', count=None, description=DESCRIPTION
    )
    vectors = open_vectors(argv[0], options.step)
    found = [
        neighbour_lines(vectors.neighbours(word, count=options.count, among=options.among)) for word in words
    ]  # before the first is printed: one of them may be refused
    for number, (word, each) in enumerate(zip(words, found, strict=True)):
        if len(words) > 1:
            print(f'{chr(10) if number else ""}{word}:')
        print('\n'.join(each))


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

"""`flax-transformer neighbors RUN word ...`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flax_transformer.common.errors import UserError, visible

from .options import OfCheckpoint, parse, positional

if TYPE_CHECKING:
    from flax_transformer.tasks.embeddings.vectors import Neighbor, WordVectors

T = TypeVar('T')
DESCRIPTION = """The words nearest to each word by the cosine of their vectors: `cosine<TAB>word`, nearest first. RUN is
a run of word vectors, one of its checkpoints (RUN@12000, RUN@best), or a file: word2vec's binary format if it is named
.bin, else its text format or GloVe's."""


@dataclass(frozen=True)
class NeighborsOptions(OfCheckpoint):
    count: int = 10  # how many words to print
    among: int | None = None  # look only among so many words, the first of the vocabulary; None: all


def main(argv: list[str]) -> None:
    options, vectors, words = open_vectors('neighbors', NeighborsOptions, argv, DESCRIPTION, words='WORD ...')
    # All are looked up before the first is printed: one of them may be refused.
    nearest = [vectors.neighbors(word, count=options.count, among=options.among) for word in words]
    blocks = []
    for word, neighbors in zip(words, nearest, strict=True):
        title = [f'{word}:'] if len(words) > 1 else []
        blocks.append('\n'.join([*title, *map(visible, neighbor_lines(neighbors))]))
    print('\n\n'.join(blocks))


def open_vectors(
    command: str, options: type[T], argv: list[str], description: str, *, words: str, count: int | None = None
) -> 'tuple[T, WordVectors, list[str]]':
    """The options of a command, the vectors that its first argument names, a run or a file, and the words after it.

    `words` is what messages call them: 'A B C'; `count` is how many are expected, None: one or more.
    """
    name, *given = positional(argv) or ['']
    default = (lambda _: options()) if Path(name).is_file() else None
    parsed = parse(command, options, argv, description, task='embeddings', default=default, most=None)
    if len(given) != count if count else not given:
        got = ' '.join(given) or 'nothing'
        raise UserError(f'{command}: got {got} after {name}, expected {words}: {command} RUN {words}')

    from flax_transformer.tasks.embeddings.vectors import WordVectors

    return parsed, WordVectors.open(name, step=parsed.step), given


def neighbor_lines(neighbors: 'Sequence[Neighbor]') -> list[str]:
    """`score  word`, a line for each. Raises UserError if there is none."""
    if not neighbors:
        raise UserError('no word is left besides those asked about; expected a larger vocabulary or --among')
    return [f'{neighbor.score:.4f}\t{neighbor.word}' for neighbor in neighbors]

"""The commands `neighbors`, `analogy` and `similarity`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from flax_transformer.common.errors import UserError, visible

from .options import OfCheckpoint, parse, positional

if TYPE_CHECKING:
    from flax_transformer.tasks.embeddings.vectors import Neighbor, WordVectors

T = TypeVar('T')


@dataclass(frozen=True)
class OfVectors(OfCheckpoint):
    invalid: Literal['refuse', 'replace'] = 'refuse'  # a word in a file that is not UTF-8: refuse it, or use U+FFFD


@dataclass(frozen=True)
class OfWords(OfVectors):
    count: int = 10  # how many words to print
    among: int | None = None  # look only among so many words, the first of the vocabulary; None: all


@dataclass(frozen=True)
class NeighborsOptions(OfWords):
    """The words nearest to each word by the cosine of their vectors: `cosine<TAB>word`, nearest first.

    RUN is a run of word vectors, or a file: word2vec's binary format if
    it is named .bin, else its text format or GloVe's.
    """


@dataclass(frozen=True)
class AnalogyOptions(OfWords):
    """What is to C as B is to A, by word vectors: `analogy RUN man woman king` begins with queen if all is well.

    Prints `score<TAB>word`, best first, without the three words. RUN is a run or file, as for `neighbors`.
    """

    # add: by the cosine with B - A + C; mul: by the product of the cosines with B and C, divided by the cosine with A
    method: Literal['add', 'mul'] = 'add'


@dataclass(frozen=True)
class SimilarityOptions(OfVectors):
    """The cosine of two words' vectors, from -1 to 1. RUN is a run or a file, as for `neighbors`."""


def neighbors(argv: list[str]) -> None:
    options, vectors, words = _open('neighbors', NeighborsOptions, argv, words='WORD ...')
    # All are looked up before the first is printed: one of them may be refused.
    nearest = [_lines(vectors.neighbors(word, count=options.count, among=options.among)) for word in words]
    titles = [f'{word}:\n' if len(words) > 1 else '' for word in words]
    print('\n\n'.join(title + lines for title, lines in zip(titles, nearest, strict=True)))


def analogy(argv: list[str]) -> None:
    options, vectors, words = _open('analogy', AnalogyOptions, argv, words='A B C', count=3)
    print(_lines(vectors.analogy(*words, method=options.method, count=options.count, among=options.among)))


def similarity(argv: list[str]) -> None:
    _, vectors, words = _open('similarity', SimilarityOptions, argv, words='A B', count=2)
    print(f'{vectors.similarity(*words):.4f}')


def _open(
    command: str, options: type[T], argv: list[str], *, words: str, count: int | None = None
) -> 'tuple[T, WordVectors, list[str]]':
    """The options, the vectors of the run or file that comes first, and the `count` words after it (None: any)."""
    name, *given = positional(argv) or ['']
    default = options() if Path(name).is_file() else None
    parsed = parse(command, options, argv, task='embeddings', default=default, most=None)
    if len(given) != count if count else not given:
        got = ' '.join(given) or 'nothing'
        raise UserError(f'{command}: got {got} after {name}, expected {words}: {command} RUN {words}')

    from flax_transformer.tasks.embeddings.vectors import WordVectors

    return parsed, WordVectors.open(name, step=parsed.step, invalid=parsed.invalid), given


def _lines(neighbors: 'Sequence[Neighbor]') -> str:
    if not neighbors:
        raise UserError('no word is left besides those asked about; expected a larger vocabulary or --among')
    return visible('\n'.join(f'{neighbor.score:.4f}\t{neighbor.word}' for neighbor in neighbors))

"""`flax-transformer analogy RUN man woman king`."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.errors import visible

from .neighbors import neighbor_lines, open_vectors
from .options import OfCheckpoint

DESCRIPTION = """What is to C as B is to A, by word vectors: `analogy RUN man woman king` begins with queen if all is
well. Prints `score<TAB>word`, best first, without the three words. RUN is a run or file, as for `neighbors`."""


@dataclass(frozen=True)
class AnalogyOptions(OfCheckpoint):
    # add: by the cosine with B - A + C; mul: by the product of the cosines with B and C, divided by the cosine with A
    method: Literal['add', 'mul'] = 'add'
    count: int = 10  # how many words to print
    among: int | None = None  # look only among so many words, the first of the vocabulary; None: all


def main(argv: list[str]) -> None:
    options, vectors, words = open_vectors('analogy', AnalogyOptions, argv, DESCRIPTION, words='A B C', count=3)
    nearest = vectors.analogy(*words, method=options.method, count=options.count, among=options.among)
    print(visible('\n'.join(neighbor_lines(nearest))))

"""`flax-transformer similarity RUN king queen`."""

from dataclasses import dataclass

from .neighbors import open_vectors
from .options import OfCheckpoint

DESCRIPTION = """The cosine of two words' vectors, from -1 to 1. RUN is a run or a file, as for `neighbors`."""


@dataclass(frozen=True)
class SimilarityOptions(OfCheckpoint):
    """A checkpoint alone."""


def main(argv: list[str]) -> None:
    _, vectors, words = open_vectors('similarity', SimilarityOptions, argv, DESCRIPTION, words='A B', count=2)
    print(f'{vectors.similarity(*words):.4f}')

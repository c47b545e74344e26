"""`flax-transformer similarity RUN king queen`."""

from dataclasses import dataclass

from flax_transformer.cli.neighbours import open_vectors

DESCRIPTION = """The cosine of two words' vectors, from -1 to 1. RUN is a run or a file, as for `neighbours`."""


@dataclass(frozen=True)
class SimilarityOptions:
    step: int | None = None  # the checkpoint of a run; None: the best, or training.average_last's mean


def main(argv: list[str]) -> None:
    _, vectors, words = open_vectors('similarity', SimilarityOptions, argv, DESCRIPTION, words='A B', count=2)
    print(f'{vectors.similarity(*words):.4f}')

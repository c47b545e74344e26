"""`flax-transformer neighbours RUN word ...`."""

from dataclasses import dataclass

from flax_transformer.cli.word_vectors import neighbour_lines, open_vectors, parse_words

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

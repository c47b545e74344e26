"""Lines in capitals and in Title Case as sentences; a tokenizer of a few words stands for a vocabulary."""

from collections.abc import Sequence

import pytest

from flax_transformer.text.casing import sentence_of_capitals, sentence_of_title

# The most frequent first, as in a vocabulary; any other word is spelled by its letters.
WORDS = 'the and a Mary Tom is in London who House will house Will new may May brown New use using contact'
PIECES = WORDS.split()


class Words:
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*([9 + PIECES.index(line)] if line in PIECES else map(ord, line)), 1] for line in lines]


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('TOM AND MARY WHO IS IN LONDON', 'Tom and Mary who is in London'),
        ('IN A HOUSE', 'In a House'),  # the vocabulary of a German text
        ('TOM IS IN! "IN A HOUSE"', 'Tom is in! "In a House"'),
        ('AM I MAY?', 'Am I may?'),
        ('İS THE ﬁNAL', 'İs the ﬁnal'),  # as long as it was
    ],
)
def test_capitals_become_a_sentence(text: str, sentence: str) -> None:
    assert sentence_of_capitals(text, Words()) == sentence


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('Contact Mary And Tom', 'Contact Mary and Tom'),
        ('Who Will Use The New Car?', 'Who will use the new car?'),
        ('Using a New iPhone in London with NASA', 'Using a new iPhone in London with NASA'),
        ('Using a car in London with Mary', None),
        ('"Using" a New Car: Will Tom?', '"Using" a new car: Will Tom?'),
        ("Who Isn't In?", "Who isn't in?"),
        ('Tom Brown', None),
        ('Tom Brown and New House', None),  # no word that names hardly have
        ('Tom Brown Who', 'Tom brown who'),
        ('The New House', None),
        ('How New Houses Use Mary', 'How new houses use Mary'),
        ('Tom Will.', 'Tom will.'),
        ('Hi New Will!', None),
        ('Who Will Dr. Will Use', 'Who will Dr. Will use'),
        ('Tom will use a Car', None),
        ('Is New York in London', 'Is new york in London'),
        ('New York in Rome', 'New York in Rome'),
        ('Contact', None),
        ('Vitamin A', None),
        ('', None),
    ],
)
def test_titles_become_sentences(text: str, sentence: str | None) -> None:
    assert sentence_of_title(text, [], Words()) == (sentence or text)


def test_a_name_in_a_title_keeps_what_is_kept() -> None:
    assert sentence_of_title('Use The New Car', [(8, 15)], Words()) == 'Use the New Car'

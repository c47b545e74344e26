"""Lines in capitals and in Title Case as sentences; a tokenizer of a few words stands for a vocabulary."""

from collections.abc import Sequence

import pytest

from flax_transformer.text.casing import (
    in_sentence_case,
    places_of_sharp_s,
    sentence_of_german_title,
    sentence_of_title,
)

# The most frequent first, as in a vocabulary; any other word is spelled by its letters.
WORDS = 'the and a Mary Tom is in London who House house new may May brown New use using contact street was choose car'
GERMAN = 'weiß Fuß muss'
PIECES = f'{WORDS} {GERMAN}'.split()


# How words are often written, the most frequent form first; any other in small letters.
WRITTEN = {
    forms[0].lower(): forms
    for forms in (
        *([form] for form in ('Mary', 'Tom', 'London', 'NATO', 'U', 'Brien', 'Haus', 'Kino', 'ARD', 'Mai', 'Europe')),
        ['Sie', 'sie'],
        ['weg', 'Weg'],
        ['arm', 'Arm'],
    )
}


def forms(word: str) -> Sequence[str]:
    return WRITTEN.get(word, [word])


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
        ('ßEN IN', 'ßen in'),
    ],
)
def test_capitals_become_a_sentence(text: str, sentence: str) -> None:
    assert in_sentence_case(text, Words()) == sentence


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('TOM AND NATO. THE HOUSE', 'Tom and NATO. The house'),
        ("MARY’S CAR; I'M; IT'S 5 O'CLOCK, O'BRIEN, L'EUROPE", "Mary’s car; I'm; it's 5 o'clock, O'Brien, l'Europe"),
        ('THE U.S. CAR AT 5 P.M. IN LONDON... NOW', 'The U.S. car at 5 p.m. in London... now'),
        ('DAS HAUS: WIE SIE SAGT', 'Das Haus: Wie Sie sagt'),
        ('DAS IST _WEG_ UND', 'Das ist _Weg_ Und'),
        ('im kino ist tom! sie sagt: ja', 'im Kino ist Tom! Sie sagt: ja'),
        ('im haus ist (tom). "wie?" sagt', 'im Haus ist (Tom). "Wie?" Sagt'),
        ('das haus ist weg, wie sie sagt', 'das Haus ist weg, wie sie sagt'),  # words that are also nouns, or polite
        ('der arm ist arm, mein arm haus', 'der Arm ist arm, mein arm Haus'),
        ("rock'n'roll und i. d. r.", "rock'n'roll und i. d. r."),
        ('IM JAHR 2010. DAS', 'Im jahr 2010. Das'),
        ('am 3. oder 4. mai, z. b. ca. 5 evtl. im haus ... im _kino_ mit', None),  # no sentence ends there
    ],
)
def test_the_training_text_tells_how_words_are_written(text: str, sentence: str | None) -> None:
    expected = sentence or text.replace('mai', 'Mai').replace('haus', 'Haus').replace('kino', 'Kino')
    assert in_sentence_case(text, Words(), forms, begins=text.isupper()) == expected


@pytest.mark.parametrize('filling', ['.', '"', ' .', 'SS', '…'])
def test_a_line_with_a_long_run_of_signs_or_letters_is_written_as_long(filling: str) -> None:
    text = f'HAUS{filling * 20_000}HAUS'
    assert len(in_sentence_case(text, Words(), forms)) == len(text)
    assert places_of_sharp_s(text, Words()) == []


def test_the_training_text_tells_where_capitals_stand_for_sharp_s() -> None:
    assert places_of_sharp_s('WEISS, MUSS', Words(), lambda word: word in ('weiss', 'muß')) == [9]


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('Tom Ist In Das Kino Gegangen. Wie Sie', 'Tom ist in das Kino gegangen. Wie Sie'),
        ('Das ZDF Und Die ARD Ist An-Und AUS', 'Das ZDF und die ARD ist an-Und AUS'),
        ('Tom Ist In Ihr Haus', 'Tom ist in Ihr Haus'),
        ('Tom Ist Weg', 'Tom ist Weg'),  # it may be a noun
        ('Licht AN', None),
        ('Ja, ICH WILL!', None),
        ('Deutsche Bank', None),  # no word that names hardly have
        ('Das ist Tom In London', None),
        ('', None),
    ],
)
def test_german_titles_become_sentences(text: str, sentence: str | None) -> None:
    assert sentence_of_german_title(text, [], forms) == (sentence or text)


def test_what_is_kept_in_a_german_title_keeps_its_capital() -> None:
    assert sentence_of_german_title('Tom Ist In Rom Und', [(4, 10)], forms) == 'Tom Ist In rom und'


def test_the_vocabulary_tells_where_capitals_stand_for_sharp_s() -> None:
    assert places_of_sharp_s('TOM WEISS, FUSS UND MUSS', Words()) == [7, 13]
    assert places_of_sharp_s('TOM', Words()) == []


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('Contact Mary And Tom', 'Contact Mary and Tom'),
        ('Who Was Using the New Car in Rome?', 'Who was using the new car in Rome?'),
        ('Who May Use the New Car', None),  # no word that names hardly have
        ("Tom Isn't In a House", "Tom Isn't in a House"),  # spelled by letters either way
        ('"Using" a New Car: Is May In?', '"Using" a new car: Is May in?'),
        ('Who Is Using iPhones for NASA', 'Who is using iPhones for NASA'),
        ('Jane Brown Is In Apple Street | Who Is Tom', 'Jane Brown is in Apple Street | Who is Tom'),
        ('Who Is Dr Brown of New London Street', 'Who is Dr Brown of New London Street'),
        ('Is London Street in New Rome', None),
        ('I’m in London.', None),
        ('Tom Brown.', None),
        ('Mary and Tom Brown Use', None),
        ('Hi New Brown!', None),
        ('Tom was using a Car', None),
        ('Contact', None),
        ('Is Plan A In a House', 'Is Plan A in a House'),
        ('Who Is In A Car', 'Who is in a car'),
        ('Part A and Part B', None),
        ('House Brown Was In Inc.', None),
        ('Car-New Is In', 'Car-New is in'),
        ('Car Is In İzmir', 'Car is in İzmir'),
        ('', None),
    ],
)
def test_titles_become_sentences(text: str, sentence: str | None) -> None:
    assert sentence_of_title(text, [], Words()) == (sentence or text)


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('Contact New Houses With Tom', 'Contact new houses with Tom'),
        ('I Confronted Tom', 'I confronted Tom'),
        ("They're Open Now, Mary", "They're open now, Mary"),
        ('Open Houses', None),
    ],
)
def test_the_training_text_tells_names_in_titles(text: str, sentence: str | None) -> None:
    assert sentence_of_title(text, [], Words(), forms) == (sentence or text)


def test_a_name_in_a_title_keeps_what_is_kept() -> None:
    assert sentence_of_title('Is The New Car In', [(7, 14)], Words()) == 'Is the New Car in'

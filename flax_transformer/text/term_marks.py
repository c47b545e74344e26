"""Terms with translations in a line of ids: `a <term> house <is> Gebäude </term>` (Dinu et al. 2019, P19-1294).

The marks are control pieces, which no text produces.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from .tokenizer import Tokenizer

Place = tuple[int, int]  # the first position, and the one after the last


def marked(
    ids: list[int], places: Sequence[Place], translations: Sequence[list[int]], marks: Sequence[int]
) -> tuple[list[int], list[Place]]:
    """Ids with the translations of places, which are in order, and the places with these.

    A place that overlaps the one before gets no translation of its own. One whose translation is empty gets no marks.

    >>> marked([5, 6, 1], [(1, 2)], [[9]], (30, 31, 32))
    ([5, 30, 6, 31, 9, 32, 1], [(1, 6)])
    >>> marked([5, 6, 1], [(1, 2)], [[]], (30, 31, 32))
    ([5, 6, 1], [(1, 2)])
    """
    out: list[int] = []
    moved: list[Place] = []
    end = 0
    for (first, last), translation in zip(places, translations, strict=True):
        if first < end:  # the words share a piece
            moved.append(moved[-1])
            continue
        out += ids[end:first]
        begin = len(out)
        words = ids[first:last]
        out += [marks[0], *words, marks[1], *translation, marks[2]] if translation else words
        moved.append((begin, len(out)))
        end = last
    return out + ids[end:], moved


def unmarked(ids: Sequence[int], marks: Sequence[int]) -> tuple[list[int], list[int]]:
    """The ids without marks and translations, and for each of `ids` which of these it belongs to."""
    plain, owners = [], []
    is_translation = False
    for i in ids:
        if i in marks:
            is_translation = i == marks[1]
        elif not is_translation:
            plain.append(i)
        owners.append(max(len(plain) - 1, 0))
    return plain, owners


def positions_of(span: tuple[int, int], text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[int, int]:
    """The first source position of the characters of a text with these ids, and the one after the last."""
    tags = set(tokenizer.languages.values())

    def ends_of(ids: Sequence[int]) -> list[int]:
        """After how many characters, spaces not counted, each piece ends."""
        pieces = ['' if i in tags else tokenizer.source_piece(i).replace('▁', '') for i in ids[:-1]]
        return list(itertools.accumulate(map(len, pieces)))

    # What stands before is encoded, too: pieces may have other characters than the text.
    begin, end = (ends_of(before)[-1:] or [0] for before in tokenizer.encode([text[:at] for at in span]))
    ends = ends_of(ids)
    return bisect_right(ends, begin[0]), bisect_left(ends, end[0]) + 1

"""Where the words of a term are among the ids of a line."""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from .tokenizer import Tokenizer


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

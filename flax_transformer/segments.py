"""Lines that are too long for the model, cut where it hurts least."""

import re
from collections.abc import Callable

# What a part may end with: the end of a sentence; of a clause; of a word. Between the digits of 10:30 there is none.
_SEAMS = (r'(?<![.!?…])[.!?…]+[\'")\]»”’]*\s+|[。！？]\s*', r'[,;:]\s+|[，；：、]\s*', r'\s+')


def is_blank(line: str) -> bool:
    return not line.strip()


def split_line(line: str, count: Callable[[str], int], limit: int) -> list[str]:
    """The line in parts of at most `limit` tokens by `count`, cut at sentence ends, else clauses, words, anywhere.

    The parts are the line but for white space between them.
    """
    if count(line) <= limit:
        return [line]
    return [part.strip() for part in _split(line, count, limit, _SEAMS) if not is_blank(part)]


def _split(text: str, count: Callable[[str], int], limit: int, seams: tuple[str, ...]) -> list[str]:
    if count(text) <= limit or len(text) == 1:
        return [text]
    if not seams:
        middle = len(text) // 2
        return _split(text[:middle], count, limit, ()) + _split(text[middle:], count, limit, ())
    ends = [match.end() for match in re.finditer(seams[0], text)]
    pieces = [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True) if begin < end]
    return _merged([part for piece in pieces for part in _split(piece, count, limit, seams[1:])], count, limit)


def _merged(pieces: list[str], count: Callable[[str], int], limit: int) -> list[str]:
    """Neighbours put together as long as they fit: the model needs their context."""
    out = pieces[:1]
    for piece in pieces[1:]:
        if count(out[-1] + piece) <= limit:
            out[-1] += piece
        else:
            out.append(piece)
    return out

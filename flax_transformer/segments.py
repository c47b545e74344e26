"""Lines that are too long for the model, cut where it hurts least."""

import re
from collections.abc import Callable

# After a sentence's end; after a clause's; between words.
_SEAMS = (r'(?<=[.!?…。！？])\s+', r'(?<=[,;:、，；：])\s*', r'\s+')


def is_blank(line: str) -> bool:
    return not line.strip()


def split_line(line: str, count: Callable[[str], int], limit: int) -> list[str]:
    """The line in parts of at most `limit` tokens by `count`, cut at sentence ends, else clauses, words, anywhere."""
    return [line] if count(line) <= limit else _split(line, count, limit, _SEAMS)


def _split(text: str, count: Callable[[str], int], limit: int, seams: tuple[str, ...]) -> list[str]:
    if count(text) <= limit:
        return [text] if text.strip() else []
    if not seams:
        middle = len(text) // 2
        return _split(text[:middle], count, limit, ()) + _split(text[middle:], count, limit, ())
    pieces = [part for piece in re.split(seams[0], text) for part in _split(piece, count, limit, seams[1:])]
    return _merged(pieces, count, limit)


def _merged(pieces: list[str], count: Callable[[str], int], limit: int) -> list[str]:
    """Neighbours joined as long as they fit: the model needs their context."""
    out: list[str] = []
    for piece in pieces:
        joined = f'{out[-1]} {piece}' if out else piece
        if out and count(joined) <= limit:
            out[-1] = joined
        else:
            out.append(piece)
    return out

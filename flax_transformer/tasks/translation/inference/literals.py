"""What is no language within a text: addresses, placeholders of programs, numbers with units, what a caller names."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from .marked import Marked, Span
from .placeholders import placeholders

_NUMBER = r'\d+(?:[.,\u00a0\u202f]\d+)*'
_UNITS = (
    'km/h|m/s|kWh|[kMGT]i?B|[kMG]?Hz|[kMG]?bit/s|[kmµcd]?m[²³]?|[mµk]?g|[mcdh]?l|[mµn]?s|[kM]?W|[mk]?[VA]|[km]?[JΩ]|k?Pa|'
    'bar|dB|px|pt|min|h|°[CF]?|%|€|\\$|£|EUR|USD|GBP'
)
_LITERAL = re.compile(
    rf"""
    (?:https?://|ftp://|\bwww\.)[^\s<>"]*[^\s<>".,;:!?'()\]»”]    # addresses; signs that end a sentence stay outside
    | (?<![\w.+-])[\w.+-]+@\w[\w-]{{0,62}}(?:\.[\w-]{{1,63}})+(?<!-)    # e-mail addresses
    | \{{\{{[^{{}}]*\}}\}} | \$?\{{[\w.:!\[\]-]*\}}    # placeholders in braces, perhaps after a dollar
    | \$\$[^$]+\$\$    # formulas
    | (?<![\w%])%(?:\(\w+\)|\d+\$)?[-+#0]*+\d*+(?:\.\d+)?(?:hh?|ll?|z)?[diouxXeEfgGcsr@](?!\w)    # printf
    | (?<![\w.,])(?:[$€£][ ]?{_NUMBER}(?!\w) | {_NUMBER}[ \u00a0\u202f]?(?:{_UNITS})(?!\w))
    """,
    re.X,
)


def with_literals(line: Marked, named: Sequence[str] = (), *, known: bool = True) -> Marked:
    """The line with spans for the texts that are named and, if `known`, for what is no language."""
    if not known and not named:
        return line
    longest_first = sorted(filter(str.strip, named), key=len, reverse=True)
    patterns = [re.compile('|'.join(map(re.escape, longest_first)))] if longest_first else []
    if line.family:
        patterns.append(placeholders(line.family, with_unit=True))
    spans = list(line.spans)
    for pattern in [*patterns, *[_LITERAL] * known]:
        ends = [span.end for span in spans]
        matches = []
        for match in pattern.finditer(line.text):
            start, end = match.span()
            after = bisect_right(ends, start)
            # A match with a tag inside is not kept whole.
            if after == len(spans) or end <= spans[after].start:
                matches.append(Span(start, end, 'literal', line.escape(match[0])))
        spans = sorted([*spans, *matches], key=itemgetter(0, 1))
    return line._replace(spans=tuple(spans))

"""Scripts that put no spaces between words."""

import re
from collections.abc import Iterable

# Thai, Lao and Tibetan; Myanmar; Khmer; kana; Han, with compatibility forms and the planes of rare characters.
_UNSPACED = re.compile(
    '[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]'
)


def count_unspaced(text: str) -> int:
    """The number of characters in scripts without spaces between words.

    >>> count_unspaced('我喜欢 JAX'), count_unspaced('나는 JAX를 좋아한다')
    (3, 0)
    """
    return len(_UNSPACED.findall(text))


def is_unspaced(lines: Iterable[str]) -> bool:
    """Whether most of the text is in scripts without spaces between words."""
    unspaced = total = 0
    for line in lines:
        unspaced += count_unspaced(line)
        total += sum(map(len, line.split()))
    return 2 * unspaced > total

"""The numbers that a line has in digits."""

import re
from collections import Counter

_NUMBER = re.compile(r"\d+(?:[.,'’:\u00a0\u202f ]\d{3}(?!\d)|[.,:]\d+)*")
_SEPARATORS = re.compile(r'\D')
SPELLED = 12  # numbers up to this are often spelled out on one side only


def numbers_of(line: str) -> Counter[str]:
    """The numbers of a line without their separators and leading zeros: 1,234.50 and 1.234,50 are the same."""
    return Counter(str(int(_SEPARATORS.sub('', number)[:1000])) for number in _NUMBER.findall(line))


def numbers_differ(source: Counter[str], target: Counter[str]) -> bool:
    """Whether one side has a number that the other lacks and is unlikely to spell out.

    Grouping does not matter: 10 000 is 10000. If one side has no digits at all, only numbers like 1987 count.
    """
    if source == target:
        return False
    alone = [*(source - target), *(target - source)]
    if not source or not target:
        return any(len(number) > 2 and number[-1] != '0' for number in alone)
    return any(len(number) > 2 or int(number) > SPELLED for number in alone) and _digits(source) != _digits(target)


def _digits(numbers: Counter[str]) -> str:
    return ''.join(sorted(numbers.elements()))

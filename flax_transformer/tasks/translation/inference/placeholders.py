"""Placeholders of programs in messages, by the kind that a message is of."""

import itertools
import re

# Flags of PO say what a message is formatted by; those of one family look alike.
_FAMILIES = {
    'printf': 'c objc gcc-internal php javascript java-printf lua perl tcl awk object-pascal ruby python',
    'braces': 'python-brace java csharp perl-brace',
    'qt': 'qt qt-plural kde kde-kuit',
    'boost': 'boost',
    'sh': 'sh',
}
_FAMILY_OF = {f'{name}-format': family for family, names in _FAMILIES.items() for name in names.split()}
_LENGTH = r'(?:hh?|ll?|[Lqjtz])?'
_PRINTF = rf"""
    %(?:% | \{{\w+\}} | (?:\(\w[^()]*\)|<\w+>|\d+\$)?[-+\ \#0'I]*(?:\*(?:\d+\$)?|\d+)?(?:\.(?:\*(?:\d+\$)?|\d*))?
    {_LENGTH}(?:[diouxXeEfFgGaAcCsSpnmrb@]|<\w+>))
"""
_BRACES = r'\{\{ | \}\} | \{(?:[^{}]|\{[^{}]*\})*\}'
# Placeholders where nothing names the kind of message; a per cent sign after a number is none, and my%20file has none.
_MESSAGE = rf"""
    (?<!')'(?:\{{[^{{}}'"]*\}}|[{{}}]+)'(?!') | [$%\#]?\{{\{{[^{{}}]*\}}\}}
    | [$%\#]?\{{(?:[^{{}}]|\{{[^{{}}]*\}})*+\}} | %%[A-Za-z]\w{{2,}}%% | \$t\([^()]*\) | (?<![\w$])\$[A-Za-z_]\w*\$?
    | \[\[\w+\]\]
    | (?<![\d%])(?!(?<=\w)%[\dA-F]{{2}})%(?:%(?!\s) | \w{{3,}}%(?![%\w]) |
      (?:\(\w+\)|<\w+>|\d+\$)?[-+\#0']*\d*(?:\.\d+)?{_LENGTH}[diouxXeEfFgGcsrp@])
"""
_WRITTEN = {
    'printf': _PRINTF,
    'braces': _BRACES,
    'qt': r'%(?:L?\d+|n)',
    'boost': rf'%% | %\d+% | %\|[^|]*\| | {_PRINTF}',
    'sh': r'\$\w+ | \$\{\w+\}',
    'message': _MESSAGE,
    'plural': rf'\# | {_MESSAGE}',
}

_UNIT = r'(?:(?<=[\w}])(?:ms|s|x|px|pt|em|th|[kMGT]?i?B|[kcm]?m)(?![^\W\d_]))?'  # goes with one, as in %dms

# The begin of those whose place in the text says which argument they show, and of those with its number.
_POSITIONAL = re.compile(r'%(?!%|[({m]|<(?!PRI)|\d+\$|\w{3,}%)|\{(?=[:!}])')
_NUMBERED = re.compile(r'%\d+\$|\{\d+(?=[:!}])')


def family_of(flags: list[str]) -> str:
    """What a message with these flags of PO is formatted by."""
    return next((_FAMILY_OF[flag] for flag in flags if flag in _FAMILY_OF), 'message')


def placeholders(family: str, *, with_unit: bool = False) -> re.Pattern[str]:
    """What finds those of a family, perhaps with a unit that is glued to them."""
    return re.compile(f'(?:{_WRITTEN[family]}){_UNIT if with_unit else ""}', re.X)


def numbered(text: str, family: str) -> str:
    """The text with a number in each placeholder whose place says which argument it shows, if there are several."""
    found = [match[0] for match in placeholders(family).finditer(text)]
    is_few = sum(map(bool, map(_POSITIONAL.match, found))) < 2
    if is_few or family not in ('printf', 'braces', 'message') or any(map(_NUMBERED.match, found)):
        return text
    count = itertools.count(0 if family == 'braces' else 1)

    def with_number(match: re.Match[str]) -> str:
        if not _POSITIONAL.match(match[0]):
            return match[0]
        sign = '$' if match[0][0] == '%' else ''
        return f'{match[0][0]}{next(count)}{sign}{match[0][1:]}'

    return placeholders(family).sub(with_number, text)


def unnumbered(text: str, source: str, flags: list[str]) -> str | None:
    """The text of a translation of `numbered(source)`; None if placeholders changed places that need their order.

    In formats that can have numbers, they stay where the order changed.
    """
    family = family_of(flags)
    if numbered(source, family) == source:
        return text
    found = [match[0] for match in placeholders(family).finditer(text) if _NUMBERED.match(match[0])]
    numbers = [int(re.search(r'\d+', placeholder)[0]) for placeholder in found]
    if numbers == sorted(numbers):
        return placeholders(family).sub(lambda match: _NUMBERED.sub(match[0][0], match[0], 1), text)
    can_have_numbers = family != 'message' and 'python-format' not in flags and '*' not in ''.join(found)
    return text if can_have_numbers else None

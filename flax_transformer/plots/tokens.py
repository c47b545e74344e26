"""Tokens as labels, in any script that this machine has a font of."""

import functools
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text

MISSING = '□'  # for a character that no font has
FIRST = 'DejaVu Sans'  # comes with matplotlib


def readable(token: str) -> str:
    """A token as matplotlib can draw it in the fonts of `use_fonts`.

    A character that no font has becomes a square: install a font of its script, such as Noto Sans CJK.

    >>> readable('▁cost$')
    '▁cost\\\\$'
    """
    is_known = lambda character: character.isprintable() and _family_with(character) is not None
    shown = ''.join(character if is_known(character) else MISSING for character in str(token))
    return _as_drawn(shown).replace('$', r'\$')


def use_fonts(texts: 'Sequence[Text]') -> None:
    """Gives each of a picture's readable texts the fonts that have its characters."""
    for text in texts:
        families = dict.fromkeys([FIRST, *map(_family_with, text.get_text())])
        text.set_fontfamily([family for family in families if family])


@functools.cache
def _family_with(character: str) -> str | None:
    """The first family that has a character, `FIRST` before all others."""
    return next((family for family, characters in _fonts() if ord(character) in characters), None)


@functools.cache
def _fonts() -> list[tuple[str, frozenset[int]]]:
    """The installed families with a plain face, and the characters of each."""
    from matplotlib import font_manager

    faces = {}
    for face in font_manager.fontManager.ttflist:
        # Last Resort has a box for every character there is.
        if face.style == 'normal' and face.weight in (400, 'normal', 'regular') and 'Last Resort' not in face.name:
            faces.setdefault(face.name, face.fname)
    ordered = sorted(faces, key=lambda name: (name != FIRST, not name.startswith('Noto Sans'), name))
    return [(name, frozenset(font_manager.get_font(faces[name]).get_charmap())) for name in ordered]


def _as_drawn(text: str) -> str:
    """The characters from left to right, where matplotlib does not order those of right-to-left scripts itself."""
    import matplotlib

    if matplotlib.__version_info__ >= (3, 11):  # it shapes texts by libraqm
        return text
    is_reversed = any(unicodedata.bidirectional(character) in ('R', 'AL') for character in text)
    return text[::-1] if is_reversed else text

"""What all pictures share: colors, a white page, axes that leave the eye to the data, words in any script."""

import functools
import io
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
else:  # matplotlib is an extra, and slow to import
    Axes = Figure = Text = Any

# Okabe and Ito's, which people with any color vision tell apart, but for yellow, which white pages swallow.
COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000')
WEIGHTS = 'Blues'  # color map from 0 up; white is nothing
SIGNED = 'RdBu'  # color map around 0
MARKERS = 'os^Dv<>'
MISSING = '□'  # stands for a character that no font has
FIRST = 'DejaVu Sans'  # comes with matplotlib


def make_figure(width: float, height: float) -> 'Figure':
    """An empty figure, in inches; white, so that its text is readable on dark pages."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout='constrained', facecolor='white')


def make_panels(width: float, height: float, rows: int = 1, columns: int = 1) -> 'tuple[Figure, list[Axes]]':
    figure = make_figure(width, height)
    return figure, [figure.add_subplot(rows, columns, number) for number in range(1, rows * columns + 1)]


def color_of(number: int) -> str:
    return COLORS[number % len(COLORS)]


def clear_frame(axes: 'Axes') -> None:
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)


def legend_below(figure: 'Figure', panels: 'Sequence[Axes]', columns: int) -> None:
    """A legend of what all panels have, each label once."""
    handles = {}
    for axes in panels:
        lines, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, lines, strict=True))
    columns = min(len(handles), columns)
    figure.legend(handles.values(), handles, loc='outside lower center', ncols=columns, frameon=False)


def draw_matrix(axes: 'Axes', values: np.ndarray, *, largest: float, color_map: str = WEIGHTS):
    """Draws [rows, columns] as squares, 0 in white and `largest` the darkest; the image, for a color bar."""
    low = -largest if color_map == SIGNED else 0.0
    image = axes.imshow(values, cmap=color_map, vmin=low, vmax=largest, interpolation='nearest')
    axes.tick_params(length=0)
    axes.spines[:].set_color('0.7')
    return image


def plain(texts: Sequence[str]) -> list[str]:
    """Escapes $, which would begin a formula."""
    return [str(text).replace('$', r'\$') for text in texts]


def png(figure: 'Figure', *, dpi: int = 100) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=dpi)
    return buffer.getvalue()


def readable(token: str) -> str:
    """A token as matplotlib can draw it; a character that no font has is a square.

    >>> readable('▁cost$')
    '▁cost\\\\$'
    """
    shown = ''
    for character in str(token):
        is_drawable = character.isprintable() and _family_with(character) is not None
        shown += character if is_drawable else MISSING
    return _as_drawn(shown).replace('$', r'\$')


def use_fonts(texts: 'Sequence[Text]') -> None:
    """Gives each of a picture's readable texts the fonts that have its characters."""
    for text in texts:
        families = dict.fromkeys([FIRST, *map(_family_with, text.get_text())])
        text.set_fontfamily([family for family in families if family])


@functools.cache
def _family_with(character: str) -> str | None:
    return next((family for family, characters in _fonts() if ord(character) in characters), None)


@functools.cache
def _fonts() -> list[tuple[str, frozenset[int]]]:
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

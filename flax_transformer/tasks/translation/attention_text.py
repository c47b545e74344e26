"""A map of attention in characters, for a terminal."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.tasks.translation.inference.translator import Translator

SHADES = ((0.60, '█'), (0.30, '▓'), (0.15, '▒'), (0.05, '░'), (0.0, ' '))  # from this weight on


def attention_text(translator: Translator, line: str, translation: Translation, width: int) -> str | None:
    """What each piece of a translation attended to among the pieces of its line: `draw`.

    The attention of word alignments (`attend_ids`). None for a blank line and for one that was translated in parts.
    Raises UserError for a model without attention.
    """
    if translation.split or not translation.token_ids:
        return None
    (source,) = translator.tokenizer.encode([line], target_language=translator.decoding.target_language)
    columns = [[source], [translation.token_ids]]
    (weights,) = translator.runner.map(translator.programs.attend_ids, translator.weights, columns)
    pieces = [translator.tokenizer.source_piece(i) for i in source]
    return draw(pieces, translation.tokens, weights[: len(translation.tokens), : len(source)], width)


def draw(source: Sequence[str], target: Sequence[str], weights: np.ndarray, width: int) -> str:
    """Lines of at most `width` columns: a row for each target piece, a column for each source piece.

    Names are cut to fit; if there is no room for the last source pieces, they are left out after `…`.

    >>> print(draw(['▁a', '</s>'], ['▁b', '</s>'], np.array([[0.9, 0.1], [0.2, 0.8]]), 40))
         ▁a </s>
    ▁b   ██ ░░░░
    </s> ▒▒ ████
    """
    source, target = list(map(_printable, source)), list(map(_printable, target))
    label = min(max(map(_columns, target)), max(width // 4, 1))
    room = width - label
    longest = max(map(_columns, source))
    # The longest names for which there is room.
    most = next((n for n in range(longest, 1, -1) if sum(1 + min(_columns(name), n) for name in source) <= room), 1)
    gap = ' ' if most > 1 or 2 * len(source) <= room else ''
    widths = [min(_columns(name), most) for name in source]
    shown = len(source) if (1 + len(gap)) * len(source) <= room or most > 1 else max(room - 2, 0)
    rest = '' if shown == len(source) else '…'
    space = gap or ' '  # before the first column
    lines = [
        ' ' * label + space + gap.join(_fit(name, n) for name, n in zip(source[:shown], widths, strict=False)) + rest
    ]
    for name, row in zip(target, weights, strict=True):
        cells = [_shade(weight) * n for weight, n in zip(row[:shown], widths, strict=False)]
        lines.append(_fit(name, label) + space + gap.join(cells))
    return '\n'.join(line.rstrip() for line in lines)


def _shade(weight: float) -> str:
    return next(shade for least, shade in SHADES if weight >= least or not least)


def _printable(piece: str) -> str:
    return ''.join(character if character.isprintable() else '?' for character in piece) or '?'


def _columns(text: str) -> int:
    """The columns of a terminal that a text takes."""
    return sum(map(_columns_of, text)) or 1


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in 'WF' else 1


def _fit(text: str, width: int) -> str:
    """The text cut or padded to this many columns."""
    kept, columns = '', 0
    for character in text:
        if columns + _columns_of(character) > width:
            break
        kept, columns = kept + character, columns + _columns_of(character)
    return kept + ' ' * (width - columns)

"""Attention as pictures, which need matplotlib (extra `plots`), and as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from rich.cells import cell_len, set_cell_size

from flax_transformer.common.errors import UserError
from flax_transformer.plots.attention import plot_map
from flax_transformer.plots.look import png
from flax_transformer.transformer.model import shift_right

from .inference.result import Translation, text_of
from .inference.translator import Translator
from .model import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = ((0.60, '█'), (0.30, '▓'), (0.15, '▒'), (0.05, '░'))  # (least weight, shade)


@dataclass(frozen=True)
class AttentionMap:
    """What each of T target pieces attended to among S source pieces; both end with EOS."""

    source: list[str]  # [S]
    target: list[str]  # [T]
    weights: np.ndarray  # [layers, H, T, S], each row sums to 1


def attention_map(translator: Translator, line: str, translation: str | None = None) -> AttentionMap:
    """The decoder's attention over `line` while it writes `translation`, by default its own.

    Raises UserError for a model without attention, and for an ensemble.
    """
    if len(translator.models) > 1:
        raise UserError(f'a map of attention: got {len(translator.models)} models, expected one')
    require([translator.model], 'cross_attention', 'a map of attention')
    if translation is None:
        translation = translator([line])[0].text
    ids, pieces = _read(translator, line, translation)
    source, target = (jnp.asarray([own]) for own in ids)
    target_in = shift_right(target, translator.programs.special_ids.start)
    look = jax.jit(partial(translator.model.apply, method='cross_attention'))
    weights = look({'params': translator.weights}, source, target_in)
    return AttentionMap(*pieces, np.asarray(weights)[:, 0])


def plot_attention(attention: AttentionMap, *, layer: int = -1, head: int | None = None) -> 'Figure':
    """The map of one layer, of one head or the mean of heads; both are counted from 0, layer -1 is the last."""
    weights = attention.weights[layer]
    picture = weights.mean(axis=0)
    heads = 'mean of heads'
    if head is not None:
        picture = weights[head]
        heads = f'head {range(len(weights))[head] + 1}'
    title = f'attention of decoder layer {range(len(attention.weights))[layer] + 1}'
    if len(weights) > 1:  # an RNN has one
        title += f',\n{heads}'
    return plot_map(picture, attention.source, attention.target, title=title)


def attention_png(translator: Translator, line: str, translation: str) -> bytes:
    """`plot_attention` of the last layer as a PNG file. Raises ImportError without matplotlib."""
    return png(plot_attention(attention_map(translator, line, translation)))


def attention_text(translator: Translator, line: str, translation: Translation, width: int) -> str | None:
    """`draw` of what each piece of a translation attended to; None for a blank line or one in parts."""
    if translation.split or not translation.token_ids:
        return None
    is_as_written = text_of(translator.tokenizer, translation.token_ids) == translation.text  # no literals put back
    return draw(*attended(translator, line, translation.token_ids if is_as_written else translation.text), width)


def attended(
    translator: Translator, line: str, translation: str | Sequence[int]
) -> tuple[list[str], list[str], np.ndarray]:
    """The pieces of a line [S] and of its translation [T], a text or its ids with EOS, and the attention [T, S]."""
    ids, pieces = _read(translator, line, translation)
    (weights,) = translator.attended(*([own] for own in ids))
    return *pieces, weights[: len(ids[1]), : len(ids[0])]


def _read(
    translator: Translator, line: str, translation: str | Sequence[int]
) -> tuple[list[Sequence[int]], list[list[str]]]:
    """The ids of a line and of its translation, with EOS, and their pieces."""
    tokenizer = translator.tokenizer
    sources = tokenizer.encode([line], target_language=translator.decoding.target_language)
    targets = translator.encode_target([translation]) if isinstance(translation, str) else [translation]
    translator.programs.check_lengths('line', [line], sources)
    translator.programs.check_lengths('translation', [translation], targets)
    pieces = [list(map(tokenizer.source_piece, sources[0])), list(map(tokenizer.piece, targets[0]))]
    return [sources[0], targets[0]], pieces


def draw(source: Sequence[str], target: Sequence[str], weights: np.ndarray, width: int) -> str:
    """Lines of at most `width` columns: a row for each target piece, a column for each source piece.

    Names are cut to fit; source pieces that do not fit are left out, shown as `…`.

    >>> print(draw(['▁a', '</s>'], ['▁b', '</s>'], np.array([[0.9, 0.1], [0.2, 0.8]]), 40))
         ▁a </s>
    ▁b   ██ ░░░░
    </s> ▒▒ ████
    """
    source, target = ([_printable(piece) for piece in side] for side in (source, target))
    label = min(max(map(_columns, target)), max(width // 4, 1))
    room = width - label

    most = _longest_name(source, room)
    gap = ' ' if most > 1 or 2 * len(source) <= room else ''
    is_room_for_all = most > 1 or (1 + len(gap)) * len(source) <= room
    shown = len(source) if is_room_for_all else max(room - 2, 0)
    rest = '' if shown == len(source) else '…'
    widths = [min(_columns(name), most) for name in source[:shown]]

    space = gap or ' '  # separates the label from the first column
    names = gap.join(map(set_cell_size, source[:shown], widths))
    lines = [' ' * label + space + names + rest]
    for name, row in zip(target, weights, strict=True):
        cells = [_shade(weight) * columns for weight, columns in zip(row[:shown], widths, strict=True)]
        lines.append(set_cell_size(name, label) + space + gap.join(cells))
    return '\n'.join(line.rstrip() for line in lines)


def _longest_name(names: Sequence[str], room: int) -> int:
    """The most columns of a name with which all names, and a space before each, fit into the room; at least 1."""
    for most in range(max(map(_columns, names)), 1, -1):
        if sum(1 + min(_columns(name), most) for name in names) <= room:
            return most
    return 1


def _shade(weight: float) -> str:
    return next((shade for least, shade in SHADES if weight >= least), ' ')


def _printable(piece: str) -> str:
    return ''.join(character if character.isprintable() else '?' for character in piece) or '?'


def _columns(text: str) -> int:
    return max(cell_len(text), 1)

"""Pictures of attention over the source and of position encodings. Needs matplotlib (extra `plots`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.plots.attention import plot_map
from flax_transformer.plots.look import png
from flax_transformer.plots.model_parts import plot_positions as plot_table
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.model import require
from flax_transformer.transformer.layers import sinusoids
from flax_transformer.transformer.model import shift_right

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class AttentionMap:
    """What each of T target pieces attended to among S source pieces; both end with EOS."""

    source: list[str]  # [S]
    target: list[str]  # [T]
    weights: np.ndarray  # [layers, H, T, S], each row sums to 1


def attention_map(translator: Translator, line: str, translation: str | None = None) -> AttentionMap:
    """The decoder's attention over `line` while it writes `translation`, by default its own.

    Raises UserError for a model without attention.
    """
    tokenizer = translator.tokenizer
    if translation is None:
        translation = translator([line])[0].text
    (source,) = tokenizer.encode([line], target_language=translator.decoding.target_language)
    (target,) = tokenizer.encode_target([translation])
    require([translator.model], 'cross_attention', 'a map of attention')
    translator.programs.check_lengths('line', [line], [source])
    translator.programs.check_lengths('translation', [translation], [target])
    target_in = shift_right(jnp.asarray([target]), tokenizer.pad_id)
    variables = {'params': translator.params}
    weights = translator.model.apply(variables, jnp.asarray([source]), target_in, method='cross_attention')
    return AttentionMap(
        [tokenizer.source_piece(i) for i in source],
        [tokenizer.piece(i) for i in target],
        np.asarray(jax.device_get(weights))[:, 0],
    )


def plot_attention(attention: AttentionMap, *, layer: int = -1, head: int | None = None) -> 'Figure':
    """The map of one layer, of one head or averaged over heads; both are counted from 0, layer -1 is the last."""
    weights = attention.weights[layer]
    picture = weights.mean(axis=0) if head is None else weights[head]
    which = ',\nmean of heads' if head is None else f',\nhead {range(len(weights))[head] + 1}'
    title = f'attention of decoder layer {range(len(attention.weights))[layer] + 1}'
    title += which if len(weights) > 1 else ''  # an RNN has one
    return plot_map(picture, attention.source, attention.target, title=title)


def attention_png(translator: Translator, line: str, translation: str) -> bytes:
    """`plot_attention` of the last layer as a PNG file. Raises ImportError without matplotlib."""
    return png(plot_attention(attention_map(translator, line, translation)))


def plot_positions(length: int = 64, d_model: int = 128, layout: str = 'interleaved') -> 'Figure':
    """The sinusoids: positions down, dimensions across (Vaswani et al. 2017, section 3.5)."""
    return plot_table(sinusoids(length, d_model, layout))

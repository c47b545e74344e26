"""Pictures of attention over the source and of position encodings. Needs matplotlib (extra `plots`)."""

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

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
    """The map of one layer, of one head or averaged over heads."""
    import matplotlib.pyplot as plt

    weights = attention.weights[layer]
    picture = weights.mean(axis=0) if head is None else weights[head]
    size = max(4.0, 1.5 + 0.38 * len(attention.source)), max(3.0, 1.5 + 0.32 * len(attention.target))  # the title fits
    figure, axes = plt.subplots(figsize=size, layout='constrained')
    image = axes.imshow(picture, cmap='viridis', vmin=0.0)
    axes.set_xticks(range(len(attention.source)), attention.source, rotation=60, ha='right')
    axes.set_yticks(range(len(attention.target)), attention.target)
    axes.set_xlabel('source')
    axes.set_ylabel('translation')
    which = 'mean of heads' if head is None else f'head {head}'
    axes.set_title(f'attention of decoder layer {range(len(attention.weights))[layer] + 1},\n{which}')
    figure.colorbar(image, label='weight', shrink=0.8)
    return figure


def attention_png(translator: Translator, line: str, translation: str) -> bytes:
    """`plot_attention` of the last layer as a PNG file. Raises ImportError without matplotlib."""
    import matplotlib.pyplot as plt

    figure = plot_attention(attention_map(translator, line, translation))
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png', dpi=100)
    plt.close(figure)
    return buffer.getvalue()


def plot_positions(length: int = 64, d_model: int = 128, layout: str = 'interleaved') -> 'Figure':
    """The sinusoids: positions down, dimensions across (Vaswani et al. 2017, section 3.5)."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4), layout='constrained')
    image = axes.imshow(sinusoids(length, d_model, layout), cmap='RdBu', aspect='auto', vmin=-1.0, vmax=1.0)
    axes.set_xlabel('dimension')
    axes.set_ylabel('position')
    figure.colorbar(image)
    return figure

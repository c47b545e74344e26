"""How sure a model is of each word."""

from collections.abc import Sequence

import numpy as np

from flax_transformer.plots.look import COLORS, Figure, clear_frame, make_panels, readable, use_fonts


def plot_quality(words: Sequence[str], word_quality: Sequence[float], quality: float, *, title: str = '') -> Figure:
    """A bar for each word, as high as it is probably right; a line at the quality of the sentence."""
    if len(words) != len(word_quality):
        raise ValueError(f'{len(words)} words, {len(word_quality)} qualities: expected equal numbers')
    figure, (axes,) = make_panels(max(4.0, 1.2 + 0.6 * len(words)), 3.0)
    places = np.arange(len(words))
    axes.bar(places, word_quality, width=0.7, color=COLORS[0])
    axes.axhline(quality, color=COLORS[1], linewidth=1.5, label=f'the sentence: {quality:.2f}')
    axes.set_xticks(places, list(map(readable, words)), rotation=35, ha='right', rotation_mode='anchor')
    use_fonts(axes.get_xticklabels())
    clear_frame(axes)
    axes.set(ylim=(0, 1), ylabel='quality')
    axes.set_title(title, loc='left', fontsize=10)
    axes.legend(loc='lower right', bbox_to_anchor=(1, 1), frameon=False, fontsize=9)
    return figure

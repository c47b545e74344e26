"""Pictures of what classifiers say and why. Needs matplotlib (extra `plots`)."""

from collections.abc import Sequence

import numpy as np

from flax_transformer.plots.look import (
    NEGATIVE,
    POSITIVE,
    SIGNED,
    Axes,
    Figure,
    make_panels,
    plain,
    readable,
    use_fonts,
)


def plot_attributions(
    tokens: Sequence[str], values: np.ndarray, names: Sequence[str], *, label: str, title: str = ''
) -> Figure:
    """Tokens across, classifiers down: what each token adds to the log-odds of the label, as a number and a color.

    Values [R, S] are in nats, for R classifiers and S tokens; `names` may include the classifiers' answers. Blue is
    for the label, red against it. Each row has a color scale of its own, up to its largest value.
    """
    values = np.asarray(values, np.float64)
    figure, (axes,) = make_panels(2.6 + 0.75 * len(tokens), 1.9 + 0.55 * len(names))
    largest = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-9)
    image = axes.imshow(values / largest, cmap=SIGNED, vmin=-1.0, vmax=1.0, aspect='auto')
    for (row, column), value in np.ndenumerate(values):
        shade = 'white' if abs(value / largest[row, 0]) > 0.6 else 'black'
        axes.text(column, row, f'{round(value, 2) + 0.0:+.2f}', ha='center', va='center', color=shade, fontsize=9)
    across = [readable(token) for token in tokens]
    axes.set_xticks(range(len(tokens)), across, rotation=35, ha='right', rotation_mode='anchor')
    use_fonts(axes.get_xticklabels())
    axes.set_yticks(range(len(names)), plain(names))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(1, len(tokens)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.grid(which='minor', color='white', linewidth=2)
    axes.tick_params(which='minor', length=0)
    axes.set_xlabel(*plain([f'token (numbers: log-odds of {label}, nats)']))
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    bar = figure.colorbar(image, ticks=(-1, 0, 1), pad=0.02, aspect=12)
    bar.ax.set_yticklabels(plain([f'against {label}', '0', f'for {label}']))
    bar.set_label('share of the row’s\nlargest value')
    bar.outline.set_visible(False)
    return figure


def plot_pairs(
    log_odds: Sequence[np.ndarray], is_praise: Sequence[bool], names: Sequence[str], *, label: str
) -> Figure:
    """A panel for each classifier: the log-odds of plain sentences across, of the same sentences negated up.

    Both are right in the shaded quarters. Axes are linear near 0 and logarithmic beyond 1 nat.

    Each classifier has log-odds [N, 2] of the label, in nats, for N pairs of a plain and a negated sentence;
    `is_praise` [N] says whether the plain sentence has the label.
    """
    is_praise = np.asarray(is_praise)
    figure, panels = make_panels(3.3 * len(names) + 0.6, 4.1, columns=len(names))
    kinds = plain([f'plain {label}, negated not', f'plain not {label}, negated {label}'])
    reach = 1.6 * max(float(np.abs(found).max()) for found in log_odds)
    for axes, found, name in zip(panels, log_odds, names, strict=True):
        _draw_quarters(axes, reach)
        for chosen, marker, color, text in zip((is_praise, ~is_praise), 'o^', (POSITIVE, NEGATIVE), kinds, strict=True):
            axes.scatter(*found[chosen].T, s=22, marker=marker, color=color, alpha=0.6, linewidths=0, label=text)
        axes.set_title(*plain([name]), fontsize=11)
        axes.set_xlabel('plain sentence')
    panels[0].set_ylabel(*plain([f'negated sentence\n(log-odds of {label}, nats)']))
    figure.legend(*panels[0].get_legend_handles_labels(), loc='outside lower center', ncols=2, frameon=False)
    return figure


def _draw_quarters(axes: Axes, reach: float) -> None:
    """Axes through 0, and shade where the signs differ."""
    axes.set(xscale='symlog', yscale='symlog', xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_box_aspect(1)
    for low, high in ((-reach, 0), (0, reach)):
        axes.fill_between([low, high], -low - high, color='0.93', zorder=0)
    for draw in (axes.axhline, axes.axvline):
        draw(0, color='0.4', linewidth=0.8, zorder=1)
    ticks = [tick for tick in (-10, -1, 0, 1, 10) if abs(tick) < reach]
    axes.set_xticks(ticks, [f'{tick:g}' for tick in ticks])
    axes.set_yticks(ticks, [f'{tick:g}' for tick in ticks])
    axes.minorticks_off()

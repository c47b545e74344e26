"""Pictures of words as vectors: maps, neighbors, a bias before and after, a table of features."""

from collections.abc import Mapping, Sequence

import numpy as np

from flax_transformer.plots.look import (
    COLORS,
    MARKERS,
    SIGNED,
    Axes,
    Figure,
    clear_frame,
    color_of,
    make_panels,
    plain,
    readable,
    use_fonts,
)

_LABEL = 8.5  # points
# Where a label may stand next to its point: horizontal and vertical alignment, and offset in points.
_ANCHORS = [
    ('left', 'center', 5, 0), ('right', 'center', -5, 0), ('center', 'bottom', 0, 4), ('center', 'top', 0, -4),
    ('left', 'bottom', 4, 3), ('right', 'bottom', -4, 3), ('left', 'top', 4, -3), ('right', 'top', -4, -3),
]  # fmt: skip


def plot_word_map(points: np.ndarray, groups: Mapping[str, Sequence[str]], *, title: str = '') -> Figure:
    """A map of words, each group, by its name, in a color and a marker of its own.

    `points` are [N, 2], for the words of all groups in order.
    """
    words = [word for each in groups.values() for word in each]
    if np.shape(points) != (len(words), 2):
        raise ValueError(f'points {np.shape(points)}: expected [{len(words)}, 2] for {len(words)} words')
    points = np.asarray(points, np.float64)
    figure, (axes,) = make_panels(9.5, 7.2)
    start = 0
    for number, (name, each) in enumerate(groups.items()):
        part = points[start : start + len(each)]
        marker = MARKERS[number % len(MARKERS)]
        axes.scatter(*part.T, s=26, marker=marker, color=color_of(number), linewidths=0, label=plain([name])[0])
        start += len(each)
    axes.margins(0.08)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color('0.7')
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    if len(groups) > 1:
        figure.legend(loc='outside lower center', ncols=min(len(groups), 5), frameon=False)
    _label(figure, axes, points, words)
    return figure


def _label(figure: Figure, axes: Axes, points: np.ndarray, words: Sequence[str]) -> None:
    """Writes each word next to its point, where it covers the least of what is there."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # the layout, which the positions depend on
    frame = axes.get_window_extent(renderer)
    pixels = axes.transData.transform(points)
    taken = np.concatenate([pixels - 4, pixels + 4], axis=1)  # left, low, right, high
    for word, point in zip(words, points, strict=True):
        label = axes.annotate(
            readable(word), point, xytext=(0, 0), textcoords='offset points', fontsize=_LABEL, color='0.15'
        )
        use_fonts([label])
        covered = []
        for horizontal, vertical, x, y in _ANCHORS:
            label.set(ha=horizontal, va=vertical)
            label.set_position((x, y))
            box = label.get_window_extent(renderer)
            outside = max(frame.x0 - box.x0, box.x1 - frame.x1, frame.y0 - box.y0, box.y1 - frame.y1, 0)
            sides = np.minimum(box.max, taken[:, 2:]) - np.maximum(box.min, taken[:, :2])
            overlap = float(np.clip(sides, 0, None).prod(axis=1).sum())
            covered.append((overlap + 1e3 * outside, box.extents))
        best = min(range(len(covered)), key=lambda i: covered[i][0])
        horizontal, vertical, x, y = _ANCHORS[best]
        label.set(ha=horizontal, va=vertical)
        label.set_position((x, y))
        taken = np.concatenate([taken, np.array(covered[best][1])[None]])


def plot_neighbours(word: str, neighbours: Sequence[str], cosines: Sequence[float], directions: np.ndarray) -> Figure:
    """A word in the middle and its neighbors around it: the nearer, the higher their cosine.

    Args:
      directions: [N, 2], one for each neighbor, such as its position on a map relative to the word: their order around
        the word is kept, and the angles between them are made equal.
    """
    cosines, directions = np.asarray(cosines, np.float64), np.asarray(directions, np.float64)
    figure, (axes,) = make_panels(6.2, 5.8)
    order = np.argsort(np.arctan2(directions[:, 1], directions[:, 0]))
    angles = np.empty(len(order))
    angles[order] = np.pi / 2 + 2 * np.pi * np.arange(len(order)) / len(order)
    far = max(1 - cosines.min(), 0.05)
    rings = [step / 10 for step in range(9, -10, -1) if step / 10 >= 1 - far - 1e-9]
    for cosine in rings[:: max(-(-len(rings) // 6), 1)]:  # six are enough
        circle = (1 - cosine) * np.exp(1j * np.linspace(0, 2 * np.pi, 200))
        axes.plot(circle.real, circle.imag, color='0.85', linewidth=0.8, zorder=0)
        between = (1 - cosine) * np.exp(1j * (np.pi / 2 + np.pi / len(order)))  # two words, if one is at the top
        axes.text(between.real, between.imag, f'{cosine:.1f}', color='0.5', fontsize=8, ha='center', va='center',
                  zorder=1, bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 1})  # fmt: skip
    for name, cosine, angle in zip(neighbours, cosines, angles, strict=True):
        x, y = (1 - cosine) * np.cos(angle), (1 - cosine) * np.sin(angle)
        axes.plot([0, x], [0, y], color=COLORS[5], linewidth=1, zorder=2)
        axes.scatter(x, y, s=24, color=COLORS[0], zorder=3)
        text = axes.annotate(
            f'{readable(name)} {cosine:.2f}', (x, y), fontsize=_LABEL, zorder=4, textcoords='offset points',
            xytext=(6 * np.cos(angle), 6 * np.sin(angle) + 2 * np.sign(np.sin(angle))),
            ha='left' if np.cos(angle) > 0.1 else 'right' if np.cos(angle) < -0.1 else 'center',
            va='bottom' if np.sin(angle) > 0.3 else 'top' if np.sin(angle) < -0.3 else 'center',
        )  # fmt: skip
        use_fonts([text])
    middle = axes.text(0, 0, readable(word), ha='center', va='center', fontsize=11, weight='bold', zorder=5,
                       bbox={'facecolor': 'white', 'edgecolor': COLORS[0], 'boxstyle': 'round'})  # fmt: skip
    use_fonts([middle])
    axes.set(xlim=(-1.45 * far, 1.45 * far), ylim=(-1.25 * far, 1.25 * far), aspect='equal')
    axes.axis('off')
    axes.set_title('distance from the middle: 1 - cosine; rings: cosines', fontsize=9, color='0.35')
    return figure


def plot_bias(
    words: Sequence[str], before: Sequence[float], after: Sequence[float], *, ends: tuple[str, str], title: str = ''
) -> Figure:
    """Each word's cosine with a bias direction, from the lowest to the highest: a ring before debiasing, a dot after.

    `ends` are what the direction goes from and to: ('he', 'she').
    """
    before, after = np.asarray(before, np.float64), np.asarray(after, np.float64)
    order = np.argsort(before)
    figure, (axes,) = make_panels(7.5, 1.5 + 0.22 * len(words))
    rows = np.arange(len(words))
    axes.axvline(0, color='0.4', linewidth=0.8)
    axes.hlines(rows, before[order], after[order], color='0.8', linewidth=2, zorder=1)
    axes.scatter(before[order], rows, s=30, facecolors='white', edgecolors=COLORS[1], zorder=2, label='before')
    axes.scatter(after[order], rows, s=22, color=COLORS[0], zorder=3, label='after')
    axes.set_yticks(rows, [readable(words[i]) for i in order], fontsize=_LABEL)
    use_fonts(axes.get_yticklabels())
    clear_frame(axes)
    axes.tick_params(axis='y', length=0)
    reach = 1.1 * max(np.abs(before).max(), np.abs(after).max(), 0.05)
    axes.set(xlim=(-reach, reach), ylim=(-0.8, len(words) - 0.2))
    axes.set_xlabel(plain([f'← {ends[0]}        cosine with the direction        {ends[1]} →'])[0])
    axes.set_title(*plain([title]), loc='left', fontsize=11)
    axes.legend(loc='lower right', frameon=False)
    return figure


def plot_features(values: np.ndarray, features: Sequence[str], words: Sequence[str]) -> Figure:
    """A table of features by words, [F, W] from -1 to 1, as numbers and colors: blue above 0, red below."""
    values = np.asarray(values, np.float64)
    if values.shape != (len(features), len(words)):
        raise ValueError(f'values {values.shape}: expected [{len(features)}, {len(words)}]')
    figure, (axes,) = make_panels(2.2 + 0.7 * len(words), 1.5 + 0.45 * len(features))
    largest = max(float(np.abs(values).max()), 1e-9)
    image = axes.imshow(values, cmap=SIGNED, vmin=-largest, vmax=largest, aspect='auto')
    for (row, column), value in np.ndenumerate(values):
        shade = 'white' if abs(value) > 0.6 * largest else 'black'
        axes.text(column, row, f'{round(value, 2) + 0.0:.2f}', ha='center', va='center', color=shade, fontsize=9)
    axes.set_xticks(range(len(words)), [readable(word) for word in words], rotation=35, ha='right',
                    rotation_mode='anchor')  # fmt: skip
    use_fonts(axes.get_xticklabels())
    axes.set_yticks(range(len(features)), plain(features))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, pad=0.02, aspect=12, label='cosine').outline.set_visible(False)
    return figure

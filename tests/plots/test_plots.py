"""Pictures show the arrays and words that they are given, and warn about nothing (warnings are errors here)."""

import numpy as np
import pytest

from flax_transformer.plots.attention import plot_alignment, plot_heads, plot_layers, plot_map, plot_masks
from flax_transformer.plots.curves import plot_lengths, plot_lines, plot_schedule
from flax_transformer.plots.look import COLORS, MISSING, png, readable
from flax_transformer.plots.model_parts import plot_positions
from flax_transformer.plots.search import plot_beam_tree

SOURCE, TARGET = ['▁a', 'b$^2', '</s>'], ['c', '</s>']
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2)).astype(np.float32)  # [layers, H, T, S]


def test_a_map_has_the_weights_and_the_tokens() -> None:
    axes = plot_map(WEIGHTS[0, 0], SOURCE, TARGET).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), WEIGHTS[0, 0])
    assert [text.get_text() for text in axes.get_xticklabels()] == ['▁a', r'b\$^2', '</s>']
    assert [text.get_text() for text in axes.get_yticklabels()] == TARGET
    with pytest.raises(ValueError, match=r'\(2, 3\).*\[3, 2\]'):
        plot_map(WEIGHTS[0, 0], TARGET, SOURCE)


def test_a_grid_has_a_map_for_each_head_on_one_scale() -> None:
    for figure, maps in (
        (plot_heads(WEIGHTS[0], SOURCE, TARGET), WEIGHTS[0]),
        (plot_layers(WEIGHTS, SOURCE, TARGET), WEIGHTS.reshape(-1, 2, 3)),
    ):
        images = [axes.images[0] for axes in figure.axes if axes.images]
        for image, expected in zip(images, maps, strict=True):
            np.testing.assert_array_equal(image.get_array(), expected)
        assert {image.get_clim() for image in images} == {(0.0, float(maps.max()))}


def test_tokens_of_any_script_are_drawn_without_a_warning() -> None:
    """What no font here has becomes a square."""
    tokens = ['▁שלום', '▁مرحبا', '你好', '\n', '▁Γειά', '$x_1$', '\u0378', '']
    assert png(plot_map(np.eye(8), tokens, tokens)).startswith(b'\x89PNG')
    assert readable('a\u0378\n') == f'a{MISSING}{MISSING}'
    assert readable('▁Γειά') == '▁Γειά'


def test_right_to_left_is_reversed_where_matplotlib_does_not_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('matplotlib.__version_info__', (3, 10, 0, 'final', 0))
    assert readable('▁שלום') == '▁שלום'[::-1]
    assert readable('▁мир') == '▁мир'


def test_links_and_masks_are_where_they_were_given() -> None:
    (links,) = plot_alignment([(2, 0), (1, 1)], SOURCE, TARGET).axes[0].collections
    assert links.get_offsets().tolist() == [[2, 0], [1, 1]]
    png(plot_alignment([], SOURCE, TARGET))
    png(plot_alignment([], SOURCE, []))  # an empty translation draws no warning
    mask = np.tri(3, dtype=bool)
    drawn = plot_masks({'causal': mask}, {'causal': (SOURCE, SOURCE)}).axes[0].images[0].get_array()
    np.testing.assert_array_equal(drawn, mask)


def test_lines_share_colors_between_panels() -> None:
    panels = {'left': {'a': ([1, 2], [3, 4]), 'b': ([1, 2], [5, 6])}, 'right': {'b': ([1, 2], [7, 8])}}
    left, right = plot_lines(panels, xlabel='step', ylabel='loss (nats)', xscale='log2').axes
    assert [line.get_color() for line in left.lines] == list(COLORS[:2])
    assert [line.get_color() for line in right.lines] == [COLORS[1]]
    assert list(right.lines[0].get_ydata()) == [7, 8]
    assert list(plot_schedule({'noam': [0.1, 0.2]}).axes[0].lines[0].get_xdata()) == [1, 2]
    scores, names = {'x': [1.0, 2.0], 'y': [3.0, 4.0]}, ['0-10', '11 or more']
    (axes,) = plot_lengths(scores, names, counts=[5, 6], ylabel='BLEU', unit='words').axes
    assert [bar.get_height() for bar in axes.patches] == [1, 2, 3, 4]
    assert len(plot_positions({'one': np.eye(4), 'two': np.eye(4)}).axes) == 3


def test_the_best_path_of_a_beam_tree_is_colored() -> None:
    figure = plot_beam_tree(['a', 'b', 'c', 'd'], [-1, -1, 0, 2], [-0.1, -2.0, -0.3, -0.5], best=3)
    lines = figure.axes[0].lines
    assert [line.get_color() == COLORS[1] for line in lines] == [True, False, True, True]
    columns, steps = zip(*((line.get_xdata()[1], line.get_ydata()[1]) for line in lines), strict=True)
    assert columns[0] == columns[2] == columns[3] < columns[1]  # the one that goes on stays on the left
    assert steps[0] == steps[1] < steps[2] < steps[3]
    with pytest.raises(ValueError, match='and every node after its parent'):
        plot_beam_tree(['a', 'b'], [1, -1], [0.0, 0.0])

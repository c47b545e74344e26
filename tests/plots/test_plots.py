"""Pictures show the arrays and words that they are given, and warn about nothing (warnings are errors here)."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_translation import drawn

import flax_transformer
from flax_transformer.plots.attention import plot_alignment, plot_heads, plot_layers, plot_map, plot_masks
from flax_transformer.plots.curves import plot_lengths, plot_lines, plot_schedule
from flax_transformer.plots.look import COLORS, MISSING, png, readable
from flax_transformer.plots.model_parts import SIZES, averaged, plot_norm_axes, plot_positions
from flax_transformer.plots.search import plot_beam_tree
from flax_transformer.plots.words import plot_bias, plot_features, plot_neighbours, plot_word_map
from flax_transformer.transformer.norms import make_norm, normalize

SOURCE, TARGET = ['▁a', 'b$^2', '</s>'], ['c', '</s>']
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2)).astype(np.float32)  # [layers, H, T, S]


def test_a_map_has_the_weights_and_the_tokens() -> None:
    axes = plot_map(WEIGHTS[0, 0], SOURCE, TARGET).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), WEIGHTS[0, 0])
    assert [text.get_text() for text in axes.get_xticklabels()] == ['▁a', r'b\$^2', '</s>']
    assert [text.get_text() for text in axes.get_yticklabels()] == TARGET
    with pytest.raises(ValueError, match=r'weights \(2, 3\): expected \[3, 2\] for 3 target and 2 source tokens'):
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
    assert len(plot_norm_axes(('layer', 'batch')).axes) == 2


@pytest.mark.parametrize('kind', ['layer', 'instance'])
def test_the_norms_average_what_their_picture_shows(kind: str) -> None:
    """By the numbers on which one normalized number depends."""
    norm, segments = make_norm(kind, 1e-6, jnp.float32), np.ones(SIZES[:2], np.int32)
    x = np.random.default_rng(0).normal(size=SIZES).astype(np.float32)
    arguments = (segments,) if kind in ('batch', 'instance') else ()
    variables = drawn(jax.eval_shape(norm.init, jax.random.key(1), x, *arguments))

    def corner(x: jax.Array) -> jax.Array:
        return normalize(norm.bind(variables), x, segments, deterministic=False)[0, 0, 0]

    np.testing.assert_array_equal(np.asarray(jax.jit(jax.grad(corner))(x)) != 0, averaged(kind))


def test_the_best_path_of_a_beam_tree_is_coloured() -> None:
    figure = plot_beam_tree(['a', 'b', 'c', 'd'], [-1, -1, 0, 2], [-0.1, -2.0, -0.3, -0.5], best=3)
    lines = figure.axes[0].lines
    assert [line.get_color() == COLORS[1] for line in lines] == [True, False, True, True]
    columns, steps = zip(*((line.get_xdata()[1], line.get_ydata()[1]) for line in lines), strict=True)
    assert columns[0] == columns[2] == columns[3] < columns[1]  # the one that goes on stays on the left
    assert steps[0] == steps[1] < steps[2] < steps[3]
    with pytest.raises(ValueError, match='and every node after its parent'):
        plot_beam_tree(['a', 'b'], [1, -1], [0.0, 0.0])


def test_no_picture_uses_pyplot() -> None:
    """It keeps every figure until somebody closes it, and may open windows."""
    package = Path(flax_transformer.__file__).parent
    assert not [file for file in package.rglob('*.py') if 'matplotlib.pyplot' in file.read_text('utf-8')]


def test_shards_name_the_devices_that_hold_each_part() -> None:
    from flax_transformer.plots.model_parts import Placement, plot_shards

    whole = Placement((4, 6), {number: (slice(None), slice(None)) for number in range(4)})
    cut = Placement((4, 6), {number: (slice(number // 2 * 2, number // 2 * 2 + 2), slice(None)) for number in range(4)})
    figure = plot_shards({'mesh': {'batch': cut, 'kernel': whole}})
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert texts == [['0 1', '2 3'], ['all 4']]
    bounds = [patch.get_bbox().bounds for patch in figure.axes[0].patches]
    assert bounds == [(0, 0, 1, 0.5), (0, 0.5, 1, 0.5)]


GROUPS = {'kin': ['mother', 'père', '母'], 'food $': ['bread', 'a$b']}


def test_a_map_has_each_word_at_its_point_with_a_label() -> None:
    points = np.array([[0, 0], [0, 0.01], [5, 5], [1, 0], [3, 2]], float)
    figure = plot_word_map(points, GROUPS, title='a map')
    (axes,) = figure.axes
    drawn = np.concatenate([each.get_offsets() for each in axes.collections])
    np.testing.assert_array_equal(drawn, points)
    assert len(axes.texts) == 5
    assert [text.get_text() for text in axes.texts][3:] == ['bread', r'a\$b']
    assert png(figure).startswith(b'\x89PNG')
    with pytest.raises(ValueError, match=r'points \(4, 2\): expected \[5, 2\] for 5 words'):
        plot_word_map(points[:4], GROUPS)


def test_neighbours_are_as_far_from_the_middle_as_their_cosines_say() -> None:
    cosines = [0.9, 0.5, 0.7]
    figure = plot_neighbours('king', ['queen', 'prince', 'throne'], cosines, np.array([[1, 0], [0, 1], [-1, -1]]))
    (axes,) = figure.axes
    drawn = np.concatenate([each.get_offsets() for each in axes.collections])
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(1 - np.array(cosines))
    assert {'king', 'queen 0.90', 'throne 0.70'} <= {text.get_text() for text in axes.texts}
    assert png(figure).startswith(b'\x89PNG')


def test_a_bias_is_drawn_before_and_after_in_the_order_before() -> None:
    figure = plot_bias(['nurse', 'judge'], [0.3, -0.2], [0.0, 0.1], ends=('he', 'she'))
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ['judge', 'nurse']
    before, after = (each.get_offsets() for each in axes.collections[-2:])
    assert before[:, 0].tolist() == [-0.2, 0.3]
    assert after[:, 0].tolist() == [0.1, 0.0]
    assert png(figure).startswith(b'\x89PNG')


def test_features_are_numbers_in_a_table() -> None:
    figure = plot_features(np.array([[0.5, -0.004]]), ['royal'], ['king', 'apple'])
    assert [text.get_text() for text in figure.axes[0].texts] == ['0.50', '0.00']
    with pytest.raises(ValueError, match=r'values \(1, 2\): expected \[2, 2\]'):
        plot_features(np.zeros((1, 2)), ['a', 'b'], ['king', 'apple'])

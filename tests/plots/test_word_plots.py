"""Pictures of words show what they are given, label each word once, and warn about nothing."""

import numpy as np
import pytest

from flax_transformer.plots.look import png
from flax_transformer.plots.words import plot_bias, plot_features, plot_neighbours, plot_word_map

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


def test_labels_of_words_at_one_point_do_not_cover_each_other() -> None:
    figure = plot_word_map(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), {'': ['one', 'two', 'three']})
    one, two, _ = (text.get_window_extent() for text in figure.axes[0].texts)
    assert not one.overlaps(two)


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

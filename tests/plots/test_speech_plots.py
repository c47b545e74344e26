"""Pictures of sounds hold what they were given; how they look was judged by eye."""

import numpy as np
import pytest

pytest.importorskip('matplotlib')

from flax_transformer.plots.look import make_figure, png
from flax_transformer.plots.sound import Span, draw_mel
from flax_transformer.plots.speech import plot_confusion, plot_detection_curve, plot_detections, plot_transcript

RATE = 800
SAMPLES = np.sin(np.arange(RATE) / 9).astype(np.float32)
WORDS = [Span('o$ne', 0.1, 0.4), Span('two', 0.5, 0.9)]
TIMES, BANDS = np.arange(20) / 20 + 0.025, np.geomspace(50, 390, 8)
FEATURES = np.random.default_rng(0).normal(size=(20, 8))


def labels(axes) -> tuple[str, str]:
    return axes.get_xlabel(), axes.get_ylabel()


def test_spectra_have_seconds_and_hz() -> None:
    axes = make_figure(8, 3).add_subplot()
    image = draw_mel(axes, FEATURES, TIMES, BANDS)
    np.testing.assert_allclose(image.get_extent(), [0, 1, -0.5, 7.5], atol=1e-9)
    assert axes.get_ylabel() == 'mel band (Hz)'
    assert [text.get_text() for text in axes.get_yticklabels()] == ['100', '250']
    assert image.get_array().max() == 0
    draw_mel(axes, FEATURES[:1], TIMES[:1], BANDS)


def test_a_transcript_names_the_peak_of_each_unit() -> None:
    units = ['', 'a', 'b', ' ', 'z']
    path = [0] * 3 + [1] * 3 + [0] * 4 + [1] * 2 + [3] * 2 + [2] * 3 + [0] * 3
    probabilities = np.full((20, 5), 0.01)
    probabilities[np.arange(20), path] = 0.96
    figure = plot_transcript(
        SAMPLES, RATE, (FEATURES, TIMES, BANDS), (probabilities, TIMES), units, text='aa b', words=WORDS
    )
    wave, _, panel, _ = figure.axes
    assert wave.get_xlim() == panel.get_xlim() == (0, 1), 'all panels share the time'
    peaks = sorted((text.get_position()[0], text.get_text()) for text in panel.texts)
    assert [name for _, name in peaks] == ['a', 'a', '␣', 'b']
    np.testing.assert_allclose([time for time, _ in peaks], TIMES[[4, 11, 13, 15]])
    assert len(panel.lines) == 4, 'a unit that is never probable is not drawn'
    assert panel.get_title(loc='left') == 'collapsed: aa b'
    assert png(figure, dpi=30).startswith(b'\x89PNG')


@pytest.mark.parametrize('waveform', [None, (SAMPLES, RATE)])
def test_detections_have_hits_threshold_and_truth(waveform: tuple | None) -> None:
    figure = plot_detections(np.linspace(0, 1, 20), TIMES, threshold=0.7, hits=[0.8], truth=WORDS, waveform=waveform)
    axes = figure.axes[-1]
    assert labels(axes) == ('time (s)', 'probability')
    threshold, line, hits = axes.lines
    assert set(threshold.get_ydata()) == {0.7}
    np.testing.assert_array_equal(line.get_xdata(), TIMES)
    np.testing.assert_array_equal(hits.get_xdata(), [0.8])
    assert [text.get_text() for text in figure.legends[0].texts] == ['word said', 'threshold 0.7', 'probability', 'hit']
    plot_detections(np.zeros(0), np.zeros(0), threshold=0.5, hits=[])


def test_the_curve_of_detections_goes_down_from_few_false_accepts() -> None:
    accepts, rejects = np.array([60.0, 0.0, 0.0, 12.0]), np.array([0.0, 0.5, 0.2, 0.1])
    interval, chosen = (rejects / 2, rejects + 0.1), {'chosen': (0, 0.2), 'chosen_accepts': (0, 21.4), 'title': ''}
    figure = plot_detection_curve(accepts, rejects, rejects_interval=interval, **chosen)
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 0, 12, 60])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [50, 20, 10, 0])
    assert labels(axes) == ('false accepts per hour', 'false rejects (%)')
    assert png(figure, dpi=30).startswith(b'\x89PNG')
    figure = plot_detection_curve(np.zeros(4), rejects, rejects_interval=interval, **chosen)
    assert png(figure, dpi=30), 'no false accept at all'


def test_confusion_shows_counts_and_shares_of_rows() -> None:
    (axes, _) = plot_confusion([[3, 1, 0], [0, 0, 2]], ['one', 'two'], ['one', 'two', 'other']).axes
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25, 0], [0, 0, 1]])
    assert [text.get_text() for text in axes.texts] == ['3', '1', '2']
    assert labels(axes) == ('heard', 'said')
    plot_confusion(np.zeros((2, 2), int), ['a', 'b'], ['a', 'b'])

"""Pictures of recordings give the plots what a transcriber and a detector say of them."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('matplotlib')

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.common.errors import UserError
from flax_transformer.data.audio.reading import Audio
from flax_transformer.tasks.speech import pictures as speech
from flax_transformer.tasks.speech.transcriber import Transcript, Word
from flax_transformer.tasks.trigger_word import pictures as trigger_word

SAMPLES = np.sin(np.arange(4000) / 5).astype(np.float32)


class Transcriber:
    """Hears an a in the middle."""

    config = SimpleNamespace(features=FeatureConfig(sample_rate=8000))
    sample_rate, seconds_per_frame = 8000, 0.04
    units = SimpleNamespace(names=['_', 'a', 'b'])

    def read(self, recording: np.ndarray) -> Audio:
        return Audio(recording)

    def log_probabilities(self, waveforms: list[np.ndarray]) -> list[np.ndarray]:
        path = [0] * 5 + [1] * 3 + [0] * 4
        return [np.log(np.eye(3)[path] * 0.98 + 0.01)]

    def __call__(self, audio: Audio) -> Transcript:
        return Transcript('a', -0.1, (Word('a', 0.2, 0.32),), 0.5)


@pytest.mark.slow
def test_a_transcribers_frames_are_at_their_times() -> None:
    wave, _, panel, _ = speech.plot_recording(Transcriber(), SAMPLES).axes
    assert [text.get_text() for text in wave.texts] == ['a']
    (peak,) = panel.texts
    assert peak.get_text() == 'a'
    assert peak.get_position()[0] == pytest.approx((6 + 0.5) * 0.04)
    assert panel.get_title(loc='left') == 'collapsed: a'
    with pytest.raises(UserError, match='too short: less than a frame'):
        speech.plot_recording(Transcriber(), SAMPLES[:100])


class Detector:
    """Hears the word after 0.3 s."""

    rule = SimpleNamespace(threshold=0.6)
    sample_rate, samples_per_output, seconds_per_output = 8000, 400, 0.05

    def probabilities(self, samples: np.ndarray) -> np.ndarray:
        return np.array([0.0] * 5 + [0.9] * 2 + [0.0] * 13)  # the silence after the recording included

    def __call__(self, samples: np.ndarray) -> list:
        return [SimpleNamespace(seconds=0.3, confidence=0.9)]


def test_a_detectors_frames_end_with_the_recording() -> None:
    _, axes = trigger_word.plot_recording(Detector(), SAMPLES).axes
    threshold, line, hits = axes.lines
    assert threshold.get_ydata()[0] == 0.6
    np.testing.assert_allclose(line.get_xdata(), np.arange(1, 11) * 0.05)
    assert list(hits.get_xdata()) == [0.3]

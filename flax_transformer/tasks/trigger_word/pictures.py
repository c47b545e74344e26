"""Pictures of what a detector hears."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.audio.reading import read_audio
from flax_transformer.plots.speech import plot_detection_curve, plot_detections
from flax_transformer.tasks.evaluation import binomial_interval, printed_scores

from .detector import Detector

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_recording(run: str, recording: str) -> 'Figure':
    return plot_recording(Detector.from_run(run), recording)


def draw_scores(file: str) -> 'Figure':
    with printed_scores(file, 'a trigger word') as scores:
        return plot_scores(scores)


def plot_recording(detector: Detector, recording: Path | str | np.ndarray) -> 'Figure':
    """Waveform, probability and hits over time; samples [T] are at the detector's rate."""
    samples = recording
    if not isinstance(samples, np.ndarray):
        samples, _ = read_audio(Path(samples), detector.sample_rate)
    probabilities = detector.probabilities(samples)
    within = probabilities[: max(-(-len(samples) // detector.samples_per_output), 1)]
    return plot_detections(
        within,
        (np.arange(len(within)) + 1) * detector.seconds_per_output,
        threshold=detector.rule.threshold,
        hits=[hit.seconds for hit in detector(samples)],
        waveform=(samples, detector.sample_rate),
    )


def plot_scores(scores: dict[str, Any]) -> 'Figure':
    """False rejects against false accepts per hour, of what `evaluate --json` printed."""
    words = int(scores['words'])
    if scores['accepts_per_hour'] is None:
        raise UserError('no recordings without the word, so no rate of false accepts')
    rejects = np.asarray(scores['false_rejects'], float)
    ends = [binomial_interval(round(share * words), words) for share in rejects.tolist()]
    return plot_detection_curve(
        np.asarray(scores['false_accepts_per_hour'], float),
        rejects,
        rejects_interval=(np.array([low for low, _ in ends]), np.array([high for _, high in ends])),
        chosen=(scores['accepts_per_hour'], scores['misses'] / max(words, 1)),
        chosen_accepts=(scores['accepts_low'], scores['accepts_high']),
        title=f'{words:,} words, {60 * scores["negative_hours"]:.0f} minutes of others',
    )

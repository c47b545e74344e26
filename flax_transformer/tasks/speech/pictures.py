"""Pictures of what a transcriber hears."""

from typing import TYPE_CHECKING, Any

import numpy as np

from flax_transformer.audio.features import log_mel
from flax_transformer.audio.mel import frame_seconds, mel_edges
from flax_transformer.common.errors import UserError
from flax_transformer.plots.sound import Span
from flax_transformer.plots.speech import plot_confusion, plot_transcript
from flax_transformer.tasks.evaluation import printed_scores

from .transcriber import TOO_SHORT, Recorded, Transcriber
from .units import BLANK_ID

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_recording(run: str, recording: str) -> 'Figure':
    return plot_recording(Transcriber.from_run(run), recording)


def draw_scores(file: str) -> 'Figure':
    with printed_scores(file, 'a speech run on single words') as scores:
        return plot_scores(scores)


def plot_recording(transcriber: Transcriber, recording: Recorded) -> 'Figure':
    audio = transcriber.read(recording)
    (log_probs,) = transcriber.log_probabilities([audio.samples])
    transcript = transcriber(audio)
    config = transcriber.config.features
    features = np.asarray(log_mel(audio.samples, config))
    if not len(features):
        raise UserError(f'{recording}: {TOO_SHORT}')
    units = transcriber.units.names
    units[BLANK_ID] = ''
    return plot_transcript(
        audio.samples,
        transcriber.sample_rate,
        (features, frame_seconds(np.arange(len(features)), config), mel_edges(config)[1:-1]),
        (np.exp(log_probs), (np.arange(len(log_probs)) + 0.5) * transcriber.seconds_per_frame),
        [unit.replace('\u2581', ' ') for unit in units],
        text=transcript.text,
        words=[Span(word.text, word.start, word.end) for word in transcript.words],
    )


def plot_scores(scores: dict[str, Any]) -> 'Figure':
    """The confusion of words in what `evaluate --json` printed."""
    words, written, counts = (scores['confusion'][name] for name in ('words', 'written', 'counts'))
    counts = np.asarray(counts)
    used = [column for column, name in enumerate(written) if name in words or counts[:, column].any()]
    return plot_confusion(counts[:, used], words, [written[column] for column in used])

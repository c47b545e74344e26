"""Log-probabilities of the units in each frame: static shapes, the same numbers whatever else is in the batch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from flax_transformer.audio.features import num_frames
from flax_transformer.tasks.speech.batches import fill
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.front_end import features_of
from flax_transformer.tasks.speech.model import SpeechModel

ROWS = 16  # windows at a time, however many there are
_LEAST_SECONDS = 1.0


class Window(NamedTuple):
    """A part of a recording that is computed by itself, and the part of its frames that counts."""

    start: int  # in samples
    end: int
    first: int  # of its frames, the first that counts
    last: int  # and the one after the last


class Predictor:
    """Computes log-probabilities.

    A recording that is longer than those of training is read in windows that overlap; of the frames that two windows
    have, each gives those that are further from its end. A window shares its batch with windows of about its own length
    only: the shape that it is computed in, and with it the rounding, does not depend on the others. Compiles once for
    each power of two of seconds.

    A model of strings has learned with a gap after half of them, and hears the last word better with one. So each
    recording gets half of the longest gap, of silence.
    """

    def __init__(self, config: Config, num_units: int) -> None:
        self._features, self._model, self._num_units = config.features, config.model, num_units
        self.samples_per_frame = config.features.hop * config.model.stride
        gap_ms = config.strings.most_gap_ms / 2 if config.strings.most else 0
        self._gap = round(gap_ms * config.features.sample_rate / 1000)
        self._most = max((config.most_samples + self._gap) // self.samples_per_frame, 8) * self.samples_per_frame
        self._compute = jax.jit(partial(log_probabilities, config=config))

    def windows(self, num_samples: int) -> list[Window]:
        """The windows of a recording and the gap after it; one if it is not too long, none for less than a frame."""
        if not self.num_frames(num_samples):
            return []
        frame = self.samples_per_frame
        num_samples += self._gap
        total = self.num_frames(num_samples)
        if num_samples <= self._most:
            return [Window(0, num_samples, 0, total)]
        length = self._most // frame  # in frames, all that follow too
        margin = length // 6  # what the next window counts of the frames that both have
        found, first = [], 0
        while first < total:
            start = max(first - margin, 0)
            end = min((start + length) * frame, num_samples)
            last = total if end == num_samples else start + length - margin
            found.append(Window(start * frame, end, first - start, last - start))
            first = last
        return found

    def num_frames(self, num_samples: int) -> int:
        """Frames of so many samples."""
        return -(-num_frames(num_samples, self._features) // self._model.stride)

    def __call__(
        self, params: Any, waveforms: Sequence[np.ndarray], progress: Callable[[float], None] | None = None
    ) -> list[np.ndarray]:
        """[T, V] float32 for each waveform; V units, the blank first. T is 0 for one that is shorter than a frame.

        `progress` is called with the seconds of each finished batch.
        """
        windows = [(i, window) for i, waveform in enumerate(waveforms) for window in self.windows(len(waveform))]
        slots = np.array([self._slots(window.end - window.start) for _, window in windows], int)
        parts: list[np.ndarray | None] = [None] * len(windows)
        for size in np.unique(slots).tolist():
            alike = np.flatnonzero(slots == size).tolist()
            for begin in range(0, len(alike), ROWS):
                chosen = alike[begin : begin + ROWS]
                cut = [_part(waveforms[i], window) for i, window in map(windows.__getitem__, chosen)]
                batch = fill(cut + [np.zeros(0)] * (ROWS - len(cut)), [()] * ROWS, slots=size, most_labels=1)
                found = np.asarray(self._compute(params, batch.samples, batch.num_samples))[..., : self._num_units]
                for row, number in zip(found, chosen, strict=False):
                    window = windows[number][1]
                    parts[number] = row[window.first : window.last].copy()
                if progress:
                    progress(sum(map(len, cut)) / self._features.sample_rate)
        out: list[list[np.ndarray]] = [[np.zeros((0, self._num_units), np.float32)] for _ in waveforms]
        for (i, _), part in zip(windows, parts, strict=True):
            out[i].append(part)
        return [np.concatenate(each) for each in out]

    def _slots(self, num_samples: int) -> int:
        """The samples of the row that a window goes into."""
        size = round(_LEAST_SECONDS * self._features.sample_rate)
        while size < num_samples:
            size *= 2
        return max(min(size, self._most), num_samples)


def _part(waveform: np.ndarray, window: Window) -> np.ndarray:
    """The samples of a window, with silence where it reaches over the end."""
    samples = waveform[window.start : window.end]
    return np.pad(samples, (0, window.end - window.start - len(samples)))


def log_probabilities(params: Any, samples: jax.Array, num_samples: jax.Array, *, config: Config) -> jax.Array:
    """The log-probability of each unit [B, T, V], float32, for samples [B, S] of which num_samples [B] count."""
    features, frames = features_of(samples, num_samples, config.features)
    logits, _ = SpeechModel(config.model).apply({'params': params}, features, frames)
    return jax.nn.log_softmax(logits, axis=-1)

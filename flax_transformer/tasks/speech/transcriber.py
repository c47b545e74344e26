"""Recordings in, text out: one transcript for each, in order, independent of the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import jax
import numpy as np

from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check_numbers
from flax_transformer.data.audio.reading import Audio, audio_of, read_audio
from flax_transformer.engine.devices.devices import jit_alone
from flax_transformer.engine.runs.averaging import load_run

from .config import SpeechConfig
from .ctc import decode, most_beam_size
from .examples import fill
from .model import SpeechModel, features_of
from .run import Run
from .units import Units

ROWS = 16  # windows at a time, however many there are
_LEAST_SECONDS = 1.0
TOO_SHORT = 'too short: less than a frame'
Recorded = Path | str | np.ndarray | Audio


@dataclass(frozen=True)
class Word:
    """A word and where it is recognized; it may be heard before and after."""

    text: str
    start: float  # seconds from the beginning of the recording
    end: float


@dataclass(frozen=True)
class Transcript:
    text: str
    log_probability: float  # log p(text | recording) in nats, over all alignments in which no label crosses a cut
    words: tuple[Word, ...]
    seconds: float  # length of the recording
    remarks: tuple[str, ...] = ()  # what was done with the recording and what is odd about it


class Window(NamedTuple):
    """A part of a recording that is computed by itself, and its frames that count."""

    start: int  # samples
    end: int
    first: int  # frames
    last: int


class Predictor:
    """Computes log-probabilities. Compiles once for each power of two of seconds.

    A recording that is longer than those of training is read in windows that overlap; each gives those of their common
    frames that are farther from its edge. The rounding of a window depends on its own length alone. A model trained on
    strings hears the last word better with a gap after it: each recording gets half of the longest, of silence.
    """

    def __init__(self, config: SpeechConfig, num_units: int) -> None:
        self._config = config
        self._num_units = num_units
        self.samples_per_frame = config.features.hop * config.model.stride
        gap_ms = config.strings.most_gap_ms / 2 if config.strings.most else 0
        self._gap = round(gap_ms * config.features.sample_rate / 1000)
        self._most = max((config.most_samples + self._gap) // self.samples_per_frame, 8) * self.samples_per_frame
        self._compute = jit_alone(partial(_log_probabilities, config=config))

    def __reduce__(self) -> tuple[Any, ...]:  # another process compiles for itself
        return type(self), (self._config, self._num_units)

    def windows(self, num_samples: int) -> list[Window]:
        """The windows of a recording and the gap after it; one if it is not too long, none for less than a frame."""
        if not self._config.encoder_frames(num_samples):
            return []
        num_samples += self._gap
        total = self._config.encoder_frames(num_samples)
        if num_samples <= self._most:
            return [Window(0, num_samples, 0, total)]
        length = self._most // self.samples_per_frame  # this and all that follow are frames
        margin = length // 6  # frames of a window that do not count at an end that overlaps another
        windows = []
        first = 0
        while first < total:
            start = max(first - margin, 0)
            end = min((start + length) * self.samples_per_frame, num_samples)
            last = total if end == num_samples else start + length - margin
            windows.append(Window(start * self.samples_per_frame, end, first - start, last - start))
            first = last
        return windows

    def __call__(
        self, params: Any, waveforms: Sequence[np.ndarray], progress: Callable[[float], None] | None = None
    ) -> list[np.ndarray]:
        """[T, V] float32 for each waveform; V units, the blank first. T is 0 for one that is shorter than a frame."""
        parts = [(number, window) for number, samples in enumerate(waveforms) for window in self.windows(len(samples))]
        slots = np.array([self._slots(window.end - window.start) for _, window in parts], int)
        computed: dict[int, np.ndarray] = {}
        for size in np.unique(slots).tolist():
            alike = np.flatnonzero(slots == size).tolist()
            for begin in range(0, len(alike), ROWS):
                chosen = alike[begin : begin + ROWS]
                cut = [np.zeros(0)] * ROWS
                for row, (number, window) in enumerate(parts[i] for i in chosen):
                    samples = waveforms[number][window.start : window.end]
                    cut[row] = np.pad(samples, (0, window.end - window.start - len(samples)))
                batch = fill(cut, [()] * ROWS, slots=size, most_labels=1)
                rows = np.asarray(self._compute(params, batch.samples, batch.num_samples))
                for row, i in zip(rows, chosen, strict=False):
                    window = parts[i][1]
                    computed[i] = row[window.first : window.last, : self._num_units].copy()
                if progress:
                    progress(sum(map(len, cut)) / self._config.features.sample_rate)
        out = [[np.zeros((0, self._num_units), np.float32)] for _ in waveforms]
        for i, (number, _) in enumerate(parts):
            out[number].append(computed[i])
        return list(map(np.concatenate, out))

    def _slots(self, num_samples: int) -> int:
        size = round(_LEAST_SECONDS * self._config.features.sample_rate)
        while size < num_samples:
            size *= 2
        return max(min(size, self._most), num_samples)


def _log_probabilities(params: Any, samples: jax.Array, num_samples: jax.Array, *, config: SpeechConfig) -> jax.Array:
    """[B, T, V] float32 for samples [B, S] of which num_samples [B] count."""
    features, frames = features_of(samples, num_samples, config.features)
    logits, _ = SpeechModel(config.model).apply({'params': params}, features, frames)
    return jax.nn.log_softmax(logits, axis=-1)


class Transcriber:
    """`transcriber(recordings)` writes down recordings, `transcriber(recording)` one.

    A recording is a path, or an array of samples at `sample_rate` [T]: floats in -1..1, or int16. Floats beyond are
    scaled down, with a remark.
    """

    def __init__(self, config: SpeechConfig, params: Any, units: Units) -> None:
        self.config = config
        self.params = params
        self.units = units
        self.sample_rate = config.features.sample_rate  # Hz
        self._predictor = Predictor(config, units.size)
        self.seconds_per_frame = self._predictor.samples_per_frame / self.sample_rate

    @classmethod
    def from_run(cls, path: Path | str, *, step: int | None = None) -> Self:
        """The transcriber of a run's best checkpoint, or of another: by `step`, or as `RUN@last` or `RUN@average`."""
        use_compilation_cache()
        return cls(*load_run(Run, path, step=step))

    @overload
    def __call__(self, recordings: Recorded, **options: Any) -> Transcript: ...

    @overload
    def __call__(self, recordings: Sequence[Recorded], **options: Any) -> list[Transcript]: ...

    def __call__(
        self,
        recordings: Recorded | Sequence[Recorded],
        *,
        beam_size: int = 1,
        progress: Callable[[float], None] | None = None,
    ) -> Transcript | list[Transcript]:
        """One transcript for each recording, in order. Raises UserError for a recording that cannot be read.

        Args:
          beam_size: 1: the units that are most probable in each frame; more: how many prefixes a search keeps.
          progress: called with the seconds of each finished batch.
        """
        if hasattr(recordings, '__array__') or isinstance(recordings, (Path, str, Audio)):
            return self([recordings], beam_size=beam_size, progress=progress)[0]
        most = most_beam_size(self.units.size)
        if not 1 <= beam_size <= most:
            raise UserError(
                f'beam_size={beam_size}: expected 1 to {most:,}; more would take more than 4 GB for '
                f'{self.units.size:,} units'
            )
        audios = [self.read(recording) for recording in recordings]
        log_probs = self.log_probabilities([audio.samples for audio in audios], progress=progress)
        return [self._transcript(*pair, beam_size) for pair in zip(audios, log_probs, strict=True)]

    def log_probabilities(
        self, waveforms: Sequence[np.ndarray], *, progress: Callable[[float], None] | None = None
    ) -> list[np.ndarray]:
        """Those of each of `units` in each frame, [T, V] float32, of each waveform at `sample_rate`.

        Frame i begins at i * `seconds_per_frame`; the last ones may be of a gap after the recording.
        """
        log_probs = self._predictor(self.params, waveforms, progress)
        check_numbers(*log_probs)
        return log_probs

    def read(self, recording: Recorded) -> Audio:
        """A recording's samples, and remarks. Raises UserError for one that cannot be read."""
        if isinstance(recording, Audio):
            return recording
        read = read_audio if isinstance(recording, (Path, str)) else audio_of
        return read(recording, self.sample_rate)

    def _transcript(self, audio: Audio, log_probs: np.ndarray, beam_size: int) -> Transcript:
        decoded = decode(log_probs, beam_size)
        remarks = audio.remarks if len(log_probs) else (*audio.remarks, TOO_SHORT)
        seconds = len(audio.samples) / self.sample_rate

        def time_of(frame: int) -> float:
            return round(min(frame * self.seconds_per_frame, seconds), 3)

        words = tuple(
            Word(text, time_of(decoded.spans[first][0]), time_of(decoded.spans[last][1]))
            for text, first, last in self.units.words(decoded.labels)
        )
        return Transcript(self.units.decode(decoded.labels), decoded.log_probability, words, seconds, remarks)

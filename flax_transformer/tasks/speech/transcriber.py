"""Recordings in, text out: one transcript for each, in order, independent of the others."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np

from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.errors import UserError
from flax_transformer.data.audio.reading import in_full_scale, num_clipped, read_audio
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.ctc import Decoded, decode, most_beam_size
from flax_transformer.tasks.speech.prediction import Predictor
from flax_transformer.tasks.speech.result import Transcript, Word
from flax_transformer.tasks.speech.run import load_run
from flax_transformer.tasks.speech.units import Units

TOO_SHORT = 'too short: less than a frame'


class Waveform(NamedTuple):
    """A recording that has been read."""

    samples: np.ndarray  # [T] float32, at the transcriber's rate
    remarks: tuple[str, ...] = ()


Recorded = Path | str | np.ndarray | Waveform


class Transcriber:
    """`transcriber(recordings)` writes down recordings, `transcriber(recording)` one.

    A recording is a path, or an array of samples at `sample_rate` [T]: floats of 32 or 64 bits in -1..1, or int16.
    Floats beyond are scaled down, with a remark. Compiles once for each power of two of seconds, up to
    data.max_seconds; longer recordings are read in windows of that length.
    """

    def __init__(self, config: Config, params: Any, units: Units) -> None:
        self.config, self.params, self.units = config, params, units
        self.sample_rate = config.features.sample_rate  # Hz
        self._predictor = Predictor(config, units.size)
        self.seconds_per_frame = self._predictor.samples_per_frame / self.sample_rate

    @classmethod
    def from_run(cls, path: Path | str, *, step: int | None = None) -> Self:
        """The transcriber of a run directory's best checkpoint, or of the mean that training.average_last asks for.

        `step`, or `RUN@12000`, `RUN@last`, `RUN@best` and `RUN@average` in place of the path, choose another.
        """
        use_compilation_cache()
        return cls(*load_run(path, step=step))

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
          recordings: paths or samples. A single one in place of a list gives a single transcript.
          beam_size: 1: the units that are most probable in each frame; more: how many prefixes a search keeps.
          progress: called with the seconds of each finished batch.
        """
        if hasattr(recordings, '__array__') or isinstance(recordings, (Path, str, Waveform)):
            return self([recordings], beam_size=beam_size, progress=progress)[0]
        most = most_beam_size(self.units.size)
        if not 1 <= beam_size <= most:
            raise UserError(
                f'beam_size={beam_size}: expected 1 to {most:,}; more would take more than 4 GB with this '
                f"model's {self.units.size:,} units"
            )
        waveforms = [self.read(recording) for recording in recordings]
        found = self.log_probabilities([each.samples for each in waveforms], progress=progress)
        return [self._transcript(*each, beam_size) for each in zip(waveforms, found, strict=True)]

    def log_probabilities(
        self, waveforms: Sequence[np.ndarray], *, progress: Callable[[float], None] | None = None
    ) -> list[np.ndarray]:
        """For each waveform at `sample_rate`, the log-probability of each of `units` in each frame, [T, V] float32.

        Frame i begins at i * `seconds_per_frame`; the last ones may be of a gap after the recording (see `Predictor`).
        Raises UserError if the model computes no numbers.
        """
        found = self._predictor(self.params, waveforms, progress)
        if not all(np.isfinite(each).all() for each in found):
            raise UserError(
                'the model computes no numbers (NaN): its parameters are damaged, or its training diverged; choose '
                'another checkpoint, as in RUN@12000'
            )
        return found

    def read(self, recording: Recorded) -> Waveform:
        """A recording's samples, and what was done to get them. Raises UserError for one that cannot be read."""
        if isinstance(recording, Waveform):
            return recording
        if isinstance(recording, (Path, str)):
            return Waveform(*read_audio(recording, self.sample_rate))
        if not hasattr(recording, '__array__'):
            raise UserError(
                f'got a recording of type {type(recording).__name__}: expected a path, or samples in an array'
            )
        recording = np.asarray(recording)
        if recording.ndim != 1 or recording.dtype not in (np.int16, np.float32, np.float64):
            raise UserError(
                f'samples of shape {recording.shape} and type {recording.dtype}: expected one channel, [T], of '
                'float32 or float64 in -1..1, or int16'
            )
        if not np.isfinite(recording).all():
            raise UserError('some samples are NaN or infinite: expected numbers in -1..1')
        samples = recording / np.float32(32768) if recording.dtype == np.int16 else recording
        peak = float(np.max(np.abs(samples), initial=0))
        samples, remarks = in_full_scale(samples, self.sample_rate, peak=peak, clipped=num_clipped(samples))
        return Waveform(samples, tuple(remarks))

    def _transcript(self, waveform: Waveform, log_probs: np.ndarray, beam_size: int) -> Transcript:
        decoded = decode(log_probs, beam_size)
        remarks = waveform.remarks + ((TOO_SHORT,) if not len(log_probs) else ())
        seconds = len(waveform.samples) / self.sample_rate
        return Transcript(
            self.units.decode(decoded.labels),
            decoded.log_probability,
            self._words(decoded, seconds),
            seconds,
            remarks,
        )

    def _words(self, decoded: Decoded, seconds: float) -> tuple[Word, ...]:
        """The words of the text with the times of their labels."""
        frame = self.seconds_per_frame
        spans: list[tuple[int, int]] = []  # of each word, in frames
        for (first, last), word in zip(decoded.spans, self.units.word_numbers(decoded.labels), strict=True):
            if word == len(spans):
                spans.append((first, last))
            elif word >= 0:
                spans[word] = (spans[word][0], last)
        return tuple(
            Word(text, *(round(min(place * frame, seconds), 3) for place in (first, last)))
            for text, (first, last) in zip(self.units.decode(decoded.labels).split(), spans, strict=True)
        )

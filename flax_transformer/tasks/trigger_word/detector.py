"""Listens to a stream, or to recordings, for the trigger word."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.fields import check_numbers
from flax_transformer.data.audio.reading import checked_samples
from flax_transformer.engine.devices.devices import jit_alone
from flax_transformer.engine.runs.averaging import load_run

from .config import DetectorConfig, HitConfig
from .model import StreamState, TriggerWordModel
from .run import Run

EARLY, LATE = 0.3, 1.0  # seconds: a hit this long before or after the end of a word is that word's


class Hit(NamedTuple):
    seconds: float  # counted from the stream's start to the end of the output frame that decided
    confidence: float  # the score of that frame, at least the threshold


class HitState(NamedTuple):
    recent: tuple[float, ...]  # probabilities of the last average - 1 output frames
    frames: int = 0  # output frames so far
    is_ready: bool = True  # the score has been below half of the threshold since the last hit
    last: int = -1 << 60  # the output frame of the last hit


def no_hits(config: HitConfig) -> HitState:
    return HitState((0.0,) * (config.average - 1))


def find_hits(
    probabilities: np.ndarray, state: HitState, config: HitConfig, seconds_per_output: float
) -> tuple[list[Hit], HitState]:
    """The hits in the next probabilities [N] of a stream, and the state after them.

    A score is the mean of the last `average` probabilities. It hits when it reaches the threshold, once it was below
    half of it and `pause` seconds have gone by since the last hit.
    """
    values = np.concatenate([state.recent, probabilities]).astype(np.float64)
    window = np.lib.stride_tricks.sliding_window_view
    scores = window(values, config.average).mean(axis=1) if len(probabilities) else ()
    hits = []
    is_ready = state.is_ready
    last = state.last
    for frame, score in enumerate(scores, start=state.frames):
        is_ready = is_ready or score < config.threshold / 2
        if score >= config.threshold and is_ready and (frame - last) * seconds_per_output >= config.pause:
            hits.append(Hit((frame + 1) * seconds_per_output, float(score)))
            is_ready = False
            last = frame
    recent = tuple(map(float, values[len(values) - len(state.recent) :]))
    return hits, HitState(recent, state.frames + len(probabilities), is_ready, last)


class Matched(NamedTuple):
    delays: tuple[float | None, ...]  # seconds from the end of each word to its hit; None: it was missed
    false_accepts: tuple[Hit, ...]  # hits of no word

    @property
    def misses(self) -> int:
        return sum(delay is None for delay in self.delays)


def matched(hits: Iterable[Hit], ends: Sequence[float]) -> Matched:
    """Gives each word, by its end in seconds, the first hit from EARLY before it to LATE after it.

    The ends ascend. Other hits are false accepts.
    """
    left = list(hits)
    delays = []
    for end in ends:
        own = next((hit for hit in left if -EARLY <= hit.seconds - end <= LATE), None)
        delays.append(own and own.seconds - end)
        if own:
            left.remove(own)
    return Matched(tuple(delays), tuple(left))


BLOCKS = (64, 8, 1)  # output frames that a compiled program computes; a chunk is cut into the largest that fit
TAIL = 0.5  # seconds of silence after the end, so that a word at the very end is still heard


class DetectorState(NamedTuple):
    model: StreamState
    unread: np.ndarray  # float32, less than an output frame


class Detector:
    """`detector(samples)` finds the trigger word in a recording, `detector.stream(chunks)` in an endless stream."""

    def __init__(self, params: Any, model: DetectorConfig, features: FeatureConfig, rule: HitConfig) -> None:
        self.params = jax.device_put(params)
        self.rule = rule
        self.sample_rate = features.sample_rate  # Hz, of all samples
        self.samples_per_output = model.stride * features.hop  # samples of an output frame
        self.seconds_per_output = self.samples_per_output / self.sample_rate
        self._model = TriggerWordModel(model, features)
        self._advance = jit_alone(partial(_advance, model=self._model))

    def __reduce__(self) -> tuple[Any, ...]:  # another process compiles for itself
        return type(self), (self.params, self._model.config, self._model.features, self.rule)

    @classmethod
    def from_run(cls, path: Path | str, *, step: int | None = None, threshold: float | None = None) -> Self:
        """The detector of a run's best checkpoint, or of another: by `step`, or as `RUN@last` or `RUN@average`."""
        use_compilation_cache()
        config, params = load_run(Run, path, step=step)
        rule = config.hits if threshold is None else replace(config.hits, threshold=threshold)
        return cls(params, config.model, config.features, rule)

    def __call__(self, samples: np.ndarray) -> list[Hit]:
        """The hits in a recording [T] at `sample_rate`: floats, clipped to -1..1, or 16-bit integers."""
        return list(self.stream([samples]))

    def stream(self, chunks: Iterable[np.ndarray]) -> Iterator[Hit]:
        """The hits in chunks [n], each as soon as it is heard; sizes of chunks change it by some 1e-6."""
        rule = no_hits(self.rule)
        for probabilities in self._probabilities(chunks):
            heard, rule = find_hits(probabilities, rule, self.rule, self.seconds_per_output)
            yield from heard

    def probabilities(self, samples: np.ndarray) -> np.ndarray:
        """Float32 [N]: for each output frame of a recording [T], that the trigger word has just been said.

        Output frame i knows the samples before (i + 1) * seconds_per_output; the last ones are in silence after it.
        """
        return np.concatenate(list(self._probabilities([samples])))

    def start(self) -> DetectorState:
        return DetectorState(jax.device_get(self._model.start(1)), np.zeros(0, np.float32))

    def step(self, state: DetectorState, chunk: np.ndarray) -> tuple[DetectorState, np.ndarray]:
        """The state after a chunk [n], and the probability of each output frame that it completes.

        Raises BadInput for samples that are not finite, which would stay in the state for ever.
        """
        samples = np.clip(checked_samples(chunk), -1, 1).astype(np.float32)
        unread = np.concatenate([state.unread, samples])
        model = state.model
        parts = [np.zeros(0, np.float32)]
        begin = 0
        for size in BLOCKS:
            width = size * self.samples_per_output
            while len(unread) - begin >= width:
                part, model = self._advance(self.params, unread[None, begin : begin + width], model)
                parts.append(part)
                begin += width
        probabilities = np.concatenate(parts)
        check_numbers(probabilities)
        return DetectorState(model, unread[begin:].copy()), probabilities  # not a view, which would keep the chunk

    def _probabilities(self, chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        state = self.start()
        silence = np.zeros(round(TAIL * self.sample_rate) + self.samples_per_output - 1, np.float32)
        for chunk in chain(chunks, [silence]):
            state, probabilities = self.step(state, chunk)
            yield probabilities


def _advance(
    params: Any, samples: jax.Array, state: StreamState, *, model: TriggerWordModel
) -> tuple[jax.Array, StreamState]:
    logits, state = model.apply({'params': params}, samples, state, method=model.advance)
    return jax.nn.sigmoid(logits[0]), state

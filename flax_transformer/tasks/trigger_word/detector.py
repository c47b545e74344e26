"""Listens to a stream, or to recordings, for the trigger word, in constant time and memory for each chunk."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
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

from . import hits
from .config import DetectorConfig, HitConfig
from .hits import Hit
from .model import StreamState, TriggerWordModel
from .run import Run

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
        """The detector of a run directory's best checkpoint, or of the mean that training.average_last asks for.

        `step`, or `RUN@12000`, `RUN@last`, `RUN@best` and `RUN@average` in place of the path, choose another.
        `threshold` replaces hits.threshold.
        """
        use_compilation_cache()
        config, params = load_run(Run, path, step=step)
        rule = config.hits if threshold is None else replace(config.hits, threshold=threshold)
        return cls(params, config.model, config.features, rule)

    def __call__(self, samples: np.ndarray) -> list[Hit]:
        """The hits in a recording [T] at `sample_rate`: floats, clipped to -1..1, or 16-bit integers."""
        return list(self.stream([samples]))

    def stream(self, chunks: Iterable[np.ndarray]) -> Iterator[Hit]:
        """The hits in chunks [n] of any sizes, each as soon as it is heard.

        The chunks' sizes change the probabilities by rounding alone, some 1e-6.
        """
        rule = hits.start(self.rule)
        for probabilities in self._probabilities(chunks):
            found, rule = hits.find_hits(probabilities, rule, self.rule, self.seconds_per_output)
            yield from found

    def probabilities(self, samples: np.ndarray) -> np.ndarray:
        """Float32 [N]: for each output frame of a recording [T], that the trigger word has just been said.

        Output frame i knows the samples before (i + 1) * seconds_per_output. The last ones are in the silence after the
        recording.
        """
        return np.concatenate([*self._probabilities([samples]), np.zeros(0, np.float32)])

    def start(self) -> DetectorState:
        return DetectorState(jax.device_get(self._model.start(1)), np.zeros(0, np.float32))

    def step(self, state: DetectorState, chunk: np.ndarray) -> tuple[DetectorState, np.ndarray]:
        """The state after a chunk [n], and the probability of each output frame that it completes.

        Raises BadInput for samples that are not finite, which would stay in the state for ever.
        """
        samples = np.clip(checked_samples(chunk), -1, 1).astype(np.float32)
        unread = np.concatenate([state.unread, samples])
        model = state.model
        found = []
        begin = 0
        for size in BLOCKS:
            width = size * self.samples_per_output
            while len(unread) - begin >= width:
                probabilities, model = self._advance(self.params, unread[None, begin : begin + width], model)
                found.append(probabilities)
                begin += width
        found = list(map(np.asarray, found))
        check_numbers(*found)
        rest = unread[begin:].copy()  # not a view, which would keep the chunk
        return DetectorState(model, rest), np.concatenate([*found, np.zeros(0, np.float32)])

    def _probabilities(self, chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        state = self.start()
        for chunk in chunks:
            state, found = self.step(state, chunk)
            yield found
        silence = np.zeros(round(TAIL * self.sample_rate) + self.samples_per_output - 1, np.float32)
        yield self.step(state, silence)[1]


def _advance(
    params: Any, samples: jax.Array, state: StreamState, *, model: TriggerWordModel
) -> tuple[jax.Array, StreamState]:
    logits, state = model.apply({'params': params}, samples, state, method=model.advance)
    return jax.nn.sigmoid(logits[0]), state

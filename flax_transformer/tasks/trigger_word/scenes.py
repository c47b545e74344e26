"""Scenes: clips one after another over background, with labels, and batches of them.

A scene is a pure function of the seed and its number.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.engine.batches import NumberedBatches, with_empty_rows

from .clips import Clip, Clips
from .config import TriggerWordConfig

_LEVEL_SPREAD = 6.0  # dB, of a clip around its scene's level
_FADE = 0.01  # seconds, at both ends of a clip
_MOST_MARGIN = 0.4  # seconds of a clip's own silence before and after its word
_UNSURE = 3  # output frames before the end of the trigger word that weigh nothing: the end is not known exactly
# How many scenes are over recorded background, generated noise, or silence; without recordings, noise.
_BACKGROUNDS = (0.6, 0.25, 0.15)
_SHORTEST = 0.01  # seconds of a part of a word


class Scene(NamedTuple):
    samples: np.ndarray  # float32 [T], in -1..1
    labels: np.ndarray  # float32 [N]: 1 in the frames after the end of a trigger word
    weight: np.ndarray  # float32 [N]
    ends: tuple[int, ...]  # the sample after each trigger word


class _Placed(NamedTuple):
    samples: np.ndarray
    end: int  # the sample after its word
    is_trigger: bool


class Scenes:
    """`scenes.scene(number)`, whatever the number: as many different scenes as anybody asks for."""

    def __init__(self, clips: Clips, config: TriggerWordConfig, *, seed: int) -> None:
        self._clips = clips
        self._config = config.scenes
        self._seed = seed
        self._rate = config.features.sample_rate
        self._positive_weight = config.training.positive_weight
        self.samples_per_output = config.samples_per_output
        self.num_outputs = int(config.scenes.seconds * self._rate) // self.samples_per_output
        self.num_samples = self.num_outputs * self.samples_per_output

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(f'{self._config} {self._seed} {self._rate} {self._positive_weight}'.encode())
        for clips in self._clips:
            for clip in clips:
                digest.update(f'{clip.text}\n{clip.start} {clip.end}\n'.encode() + clip.samples.tobytes())
        return digest.hexdigest()

    def scene(self, number: int) -> Scene:
        generator = np.random.default_rng([self._seed, number])
        samples = self._background_of(generator)
        level = generator.uniform(*self._config.levels)
        ends = []
        start = int(generator.uniform(0, 1) * self._rate)
        while True:
            clip = self._placed(generator, level)
            if start + len(clip.samples) > self.num_samples:
                break
            samples[start : start + len(clip.samples)] += clip.samples
            if clip.is_trigger:
                ends.append(start + clip.end)
            start += len(clip.samples) + int(generator.uniform(*self._config.gaps) * self._rate)
        return Scene(np.clip(samples, -1, 1), *self._labels(ends), tuple(ends))

    def _labels(self, ends: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        labels = np.zeros(self.num_outputs, np.float32)
        weight = np.ones(self.num_outputs, np.float32)
        length = max(1, round(self._config.label_seconds * self._rate / self.samples_per_output))
        for end in ends:
            first = -(-end // self.samples_per_output)
            weight[max(0, first - _UNSURE) : first] = 0
            labels[first : first + length] = 1
        weight[labels > 0] = self._positive_weight
        return labels, weight

    def _background_of(self, generator: np.random.Generator) -> np.ndarray:
        """Float32 [T]: a stretch of a recording, noise of a random color, or silence."""
        kind = generator.choice(3, p=_BACKGROUNDS)
        if kind == 2:
            return np.zeros(self.num_samples, np.float32)
        background = self._clips.background
        if kind == 0 and background:
            whole = background[generator.integers(len(background))].samples
            first = generator.integers(len(whole))
            sound = np.resize(np.concatenate([whole[first:], whole[:first]]), self.num_samples)
        else:
            sound = colored_noise(generator, self.num_samples)
        return sound * np.float32(_gain(sound, generator.uniform(*self._config.background_levels)))

    def _placed(self, generator: np.random.Generator, level: float) -> _Placed:
        """A clip at a random speed and about the scene's level."""
        config = self._config
        triggers, others = self._clips.triggers, self._clips.others
        is_trigger = generator.random() < config.trigger_share or not (others or config.partial_share)
        is_partial = not is_trigger and (generator.random() < config.partial_share or not others)
        pool = triggers if is_trigger or is_partial else others
        clip = pool[generator.integers(len(pool))]
        cut = _part if is_partial else _with_margins
        first, last = cut(clip, generator, self._rate)
        speed = generator.uniform(*config.speeds)
        sound = clip.samples[first:last]
        count = max(1, int(len(sound) / speed))
        sound = np.interp(np.arange(count) * speed, np.arange(len(sound)), sound).astype(np.float32)
        wanted = level + generator.uniform(-_LEVEL_SPREAD, _LEVEL_SPREAD)
        fade = round(_FADE * self._rate)
        if len(sound) >= 2 * fade:
            sound[:fade] *= np.linspace(0, 1, fade, dtype=np.float32)
            sound[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
        sound = sound * np.float32(_gain(clip.samples[clip.start : clip.end], wanted))
        return _Placed(sound, min(count, int((clip.end - first) / speed)), is_trigger)


def colored_noise(generator: np.random.Generator, count: int) -> np.ndarray:
    """Noise [count] whose amplitude goes with a random power of the frequency: from white to brown."""
    spectrum = np.fft.rfft(generator.standard_normal(count, np.float32))
    frequency = np.arange(len(spectrum), dtype=np.float32) + 10
    return np.fft.irfft(spectrum * frequency ** np.float32(generator.uniform(-1.2, 0.2)), count).astype(np.float32)


def _with_margins(clip: Clip, generator: np.random.Generator, rate: int) -> tuple[int, int]:
    """The word with some of what is around it."""
    before, after = generator.uniform(0.02, _MOST_MARGIN, 2) * rate
    return max(0, clip.start - int(before)), min(len(clip.samples), clip.end + int(after))


def _part(clip: Clip, generator: np.random.Generator, rate: int) -> tuple[int, int]:
    """The beginning of the word without its end, or the end without its beginning."""
    length = clip.end - clip.start
    least = int(_SHORTEST * rate)
    if generator.random() < 0.5:
        return clip.start, clip.start + max(least, int(length * generator.uniform(0.3, 0.65)))
    return min(clip.end - least, clip.start + int(length * generator.uniform(0.45, 0.8))), clip.end


def _gain(samples: np.ndarray, level: float) -> float:
    """The factor that brings samples to a level, in dB of full scale."""
    return 10 ** (level / 20) / np.sqrt(np.mean(np.square(samples, dtype=np.float64)) + 1e-12)


class Batch(NamedTuple):
    """Rows of scenes; a row of zeros weighs nothing. R rows, T samples, N output frames."""

    samples: np.ndarray  # [R, T] float32
    labels: np.ndarray  # [R, N] float32, 0 or 1
    weight: np.ndarray  # [R, N] float32


def batch_of(scenes: Sequence[Scene], rows: int) -> Batch:
    """The scenes, and empty rows after them."""
    columns = (np.stack([getattr(scene, name) for scene in scenes]) for name in Batch._fields)
    return with_empty_rows(Batch(*columns), rows)


class TrainingBatches(NumberedBatches):
    """Batches without end, of scenes that never come again; a pure function of the seed."""

    def __init__(self, config: TriggerWordConfig, scenes: Scenes, own_rows: np.ndarray) -> None:
        super().__init__()
        self.name = ', '.join(config.data.train + config.data.train_background)
        self._scenes = scenes
        self._rows = config.training.batch_size
        self._own_rows = own_rows.tolist()

    def batch(self, number: int) -> Batch:
        scenes = [self._scenes.scene(number * self._rows + row) for row in self._own_rows]
        return batch_of(scenes, len(scenes))

    def describe(self, position: Any) -> dict[str, Any]:
        first = position['batch'] * self._rows
        return {'scenes': [first, first + self._rows - 1]}

"""Clips, each of the trigger word or of something else, and scenes: clips one after another over background."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import Say
from flax_transformer.data.audio.corpus import corpus_files, read_corpus
from flax_transformer.data.audio.reading import faster
from flax_transformer.data.held_out import held_out_rows, key_of, repeated_or_empty
from flax_transformer.engine.batches import NumberedBatches, with_empty_rows

from .config import TriggerWordConfig, TriggerWordDataConfig

PARTS = ('train', 'validation', 'test')
_FRAME = 0.02  # seconds
_DEPTH = 20.0  # dB: a frame quieter than the loudest by more is not the word
_RISE = 0.4  # nor, in noise, is one below this share of the way from the quietest to the loudest
_PAUSE = 0.2  # seconds: shorter pauses are within the word


class Clip(NamedTuple):
    samples: np.ndarray  # float32 [T] in -1..1
    text: str
    start: int  # the first sample of the word, by its energy
    end: int  # the sample after it
    place: str  # what messages call it


class Clips(NamedTuple):
    triggers: list[Clip]
    others: list[Clip]
    background: list[Clip]


def read_parts(config: TriggerWordConfig, parts: Iterable[str] = PARTS, *, say: Say) -> dict[str, Clips]:
    data = config.data
    rate = config.features.sample_rate
    needed = {*parts, 'train'} if data.held_out else parts
    clips = {part: _read_clips(getattr(data, part), data, rate, say) for part in needed if getattr(data, part)}
    if data.held_out:
        clips['train'], clips['validation'] = split(clips['train'], data)
    return {
        part: Clips(
            *by_trigger(clips[part], data.trigger, specs_of(data, part)),
            _read_clips(getattr(data, f'{part}_background'), data, rate, say),
        )
        for part in parts
        if part in clips
    }


def read_part(config: TriggerWordConfig, part: str, *, say: Say) -> Clips:
    return read_parts(config, [part], say=say)[part]


def specs_of(data: TriggerWordDataConfig, part: str) -> tuple[str, ...]:
    return data.train if part == 'validation' and data.held_out else getattr(data, part)


def part_files(data: TriggerWordDataConfig, part: str) -> Iterator[Path]:
    for spec in (*specs_of(data, part), *getattr(data, f'{part}_background')):
        yield from corpus_files(spec, data)


def _read_clips(specs: Sequence[str], data: TriggerWordDataConfig, rate: int, say: Say) -> list[Clip]:
    clips = []
    for spec in specs:
        corpus = read_corpus(spec, data, rate, say=say)
        for number, recording in enumerate(corpus.recordings):
            samples = corpus.samples(number)
            clips.append(Clip(samples, recording.text, *extent(samples, rate), recording.place))
    return clips


def by_trigger(clips: Sequence[Clip], trigger: str, specs: Sequence[str]) -> tuple[list[Clip], list[Clip]]:
    """Raises UserError if none is of the trigger word."""
    triggers = [clip for clip in clips if clip.text == trigger]
    if not triggers:
        texts = sorted({clip.text for clip in clips})
        listed = ', '.join(map(repr, texts[:10])) + ', ...' * (len(texts) > 10)
        raise UserError(
            f'{", ".join(specs)}: no recording has the text data.trigger={trigger!r}; the texts are {listed}'
        )
    return triggers, [clip for clip in clips if clip.text != trigger]


def split(clips: Sequence[Clip], data: TriggerWordDataConfig) -> tuple[list[Clip], list[Clip]]:
    """The rest of the clips, and those held out, some of each text; clips of equal sound stay together."""
    sounds = np.array([key_of(clip.samples.tobytes()) for clip in clips], np.uint64)
    labels = repeated_or_empty([clip.text for clip in clips])
    is_held_out = held_out_rows(', '.join(data.train), data.held_out, sounds, labels=labels)
    rest, taken = (np.flatnonzero(rows).tolist() for rows in (~is_held_out, is_held_out))
    return [clips[i] for i in rest], [clips[i] for i in taken]


def extent(samples: np.ndarray, rate: int) -> tuple[int, int]:
    """The first sample of the word in a clip, and that after its last: the stretch with the most energy."""
    frame = max(1, round(_FRAME * rate))
    count = len(samples) // frame
    if count < 3:
        return 0, len(samples)
    power = np.square(samples[: count * frame], dtype=np.float64).reshape(count, frame).mean(axis=1)
    level = 10 * np.log10(power + 1e-12)
    quiet, loud = np.percentile(level, [10, 95])
    is_sound = np.flatnonzero(level >= max(loud - _DEPTH, quiet + _RISE * (loud - quiet)))
    stretches = np.split(is_sound, np.flatnonzero(np.diff(is_sound) > round(_PAUSE / _FRAME)) + 1)
    word = max(stretches, key=lambda stretch: power[stretch].sum())
    return int(word[0]) * frame, int(word[-1] + 1) * frame


_LEVEL_SPREAD = 6.0  # dB, of a clip around its scene's level
_FADE = 0.01  # seconds, at both ends of a clip
_MOST_MARGIN = 0.4  # seconds of a clip's own silence before and after its word
_UNSURE = 3  # output frames before the end of the trigger word that weigh nothing: the end is not known exactly
_BACKGROUNDS = (0.6, 0.25, 0.15)  # how many scenes are over recordings (noise if there are none), noise, silence
_SHORTEST = 0.01  # seconds of a part of a word


class Scene(NamedTuple):
    samples: np.ndarray  # float32 [T], in -1..1
    labels: np.ndarray  # float32 [N]: 1 in the frames after the end of a trigger word
    weight: np.ndarray  # float32 [N]
    ends: tuple[int, ...]  # the sample after each trigger word


class Scenes:
    """Each scene is a pure function of its number and the seed."""

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
            sound, end = self._sound(generator, level)
            if start + len(sound) > self.num_samples:
                break
            samples[start : start + len(sound)] += sound
            if end is not None:
                ends.append(start + end)
            start += len(sound) + int(generator.uniform(*self._config.gaps) * self._rate)
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
        kind = generator.choice(3, p=_BACKGROUNDS)
        if kind == 2:
            return np.zeros(self.num_samples, np.float32)
        background = self._clips.background
        if kind == 0 and background:
            whole = background[generator.integers(len(background))].samples
            first = generator.integers(len(whole))
            sound = np.resize(np.concatenate([whole[first:], whole[:first]]), self.num_samples)
        else:
            sound = _colored_noise(generator, self.num_samples)
        return sound * np.float32(_gain(sound, generator.uniform(*self._config.background_levels)))

    def _sound(self, generator: np.random.Generator, level: float) -> tuple[np.ndarray, int | None]:
        """A clip at a random speed and about the scene's level, and where a trigger word ends in it."""
        config = self._config
        triggers, others, _ = self._clips
        is_trigger = generator.random() < config.trigger_share or not (others or config.partial_share)
        is_partial = not is_trigger and (generator.random() < config.partial_share or not others)
        pool = triggers if is_trigger or is_partial else others
        clip = pool[generator.integers(len(pool))]
        cut = _part if is_partial else _with_margins
        first, last = cut(clip, generator, self._rate)
        speed = generator.uniform(*config.speeds)
        count = max(1, int((last - first) / speed))
        sound = faster(clip.samples[first:last], speed, count)
        wanted = level + generator.uniform(-_LEVEL_SPREAD, _LEVEL_SPREAD)
        fade = round(_FADE * self._rate)
        if len(sound) >= 2 * fade:
            sound[:fade] *= np.linspace(0, 1, fade, dtype=np.float32)
            sound[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
        sound = sound * np.float32(_gain(clip.samples[clip.start : clip.end], wanted))
        return sound, min(count, int((clip.end - first) / speed)) if is_trigger else None


def _colored_noise(generator: np.random.Generator, count: int) -> np.ndarray:
    """Noise whose amplitude is a random power of the frequency, from white to brown."""
    spectrum = np.fft.rfft(generator.standard_normal(count, np.float32))
    frequency = np.arange(len(spectrum), dtype=np.float32) + 10
    return np.fft.irfft(spectrum * frequency ** np.float32(generator.uniform(-1.2, 0.2)), count).astype(np.float32)


def _with_margins(clip: Clip, generator: np.random.Generator, rate: int) -> tuple[int, int]:
    before, after = generator.uniform(0.02, _MOST_MARGIN, 2) * rate
    return max(0, clip.start - int(before)), min(len(clip.samples), clip.end + int(after))


def _part(clip: Clip, generator: np.random.Generator, rate: int) -> tuple[int, int]:
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
    columns = (np.stack([getattr(scene, name) for scene in scenes]) for name in Batch._fields)
    return with_empty_rows(Batch(*columns), rows)


class TrainingBatches(NumberedBatches):
    """Batches without end, of scenes that never come again."""

    is_made = True

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

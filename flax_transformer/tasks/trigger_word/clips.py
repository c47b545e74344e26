"""Short recordings, each of the trigger word or of something else, and where the sound is in them."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.audio.manifest import Say, read_all, read_manifest
from flax_transformer.data.audio.rows import manifest_paths
from flax_transformer.data.held_out import held_out_rows, key_of, repeated_or_empty
from flax_transformer.data.named_files import data_root

from .config import TriggerWordConfig, TriggerWordDataConfig

_FRAME = 0.02  # seconds
_DEPTH = 20.0  # dB: a frame quieter than the loudest by more is not the word
_RISE = 0.4  # in noise: nor is one below this share of the way from the quietest to the loudest
_PAUSE = 0.2  # seconds: shorter pauses are within the word


class Clip(NamedTuple):
    samples: np.ndarray  # float32 [T] in -1..1
    text: str
    start: int  # the first sample of the word, by its energy
    end: int  # the sample after it
    place: str  # where it comes from, for messages


def read_clips(specs: Sequence[str], data: TriggerWordDataConfig, rate: int, *, say: Say) -> list[Clip]:
    """The clips of manifests, and generated ones, at `rate` Hz. Raises UserError for what cannot be read."""
    clips = []
    for spec in specs:
        if spec.startswith(PREFIX):
            for number, (sound, text) in enumerate(melodies(spec, rate), start=1):
                clips.append(Clip(sound, text, *extent(sound, rate), f'{spec}:{number}'))
            continue
        utterances = read_manifest(spec, data_root(data.root), say=say)
        for sound, utterance in zip(read_all(utterances, rate, say=say), utterances, strict=True):
            clips.append(Clip(sound, utterance.text, *extent(sound, rate), utterance.place))
    return clips


def by_trigger(clips: Sequence[Clip], trigger: str, specs: Sequence[str]) -> tuple[list[Clip], list[Clip]]:
    """The clips of the trigger word, at least one, and the others."""
    triggers = [clip for clip in clips if clip.text == trigger]
    if not triggers:
        texts = sorted({clip.text for clip in clips})
        listed = ', '.join(map(repr, texts[:10])) + ', ...' * (len(texts) > 10)
        raise UserError(
            f'{", ".join(specs)}: no recording has the text data.trigger={trigger!r}; the texts are {listed}'
        )
    return triggers, [clip for clip in clips if clip.text != trigger]


def extent(samples: np.ndarray, rate: int) -> tuple[int, int]:
    """The first sample of the word in a clip, and the sample after its last: the loudest stretch.

    A frame of 20 ms belongs to a stretch if its level is within 20 dB of the clip's loudest (the 95th percentile), and
    in a noisy clip above two fifths of the way from its quietest (the 10th) to its loudest. Stretches less than 0.2 s
    apart are one; the one with the most energy is the word. Clicks before and after it are not, nor is silence.
    """
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


PREFIX = 'melodies:'
MELODIES = {
    'rising': (0, 1, 2),
    'falling': (2, 1, 0),
    'valley': (1, 0, 2),
    'hill': (0, 2, 1),
    'dip': (2, 0, 1),
    'drop': (1, 2, 0),
}
SIZES = {'train': 240, 'validation': 60, 'test': 60}
_RATIOS = np.array([1.0, 1.25, 1.5])
_SEED = 1685  # fixed, so that every run holds out the same melodies


def melodies(spec: str, rate: int) -> Iterator[tuple[np.ndarray, str]]:
    """Samples float32 [T] and text of each melody of `melodies:SPLIT`; every third is `rising`.

    Each is a pure function of its split and number. Raises UserError for an unknown split.
    """
    split = spec.removeprefix(PREFIX)
    if split not in SIZES:
        raise UserError(f'{spec}: expected {PREFIX} and one of {", ".join(SIZES)}.{nearest(split, SIZES)}')
    others = [text for text in MELODIES if text != 'rising']
    for number in range(SIZES[split]):
        text = others[(number // 3 * 2 + number % 3) % len(others)] if number % 3 else 'rising'
        yield melody(text, np.random.default_rng([_SEED, zlib.crc32(split.encode()), number]), rate), text


def melody(text: str, generator: np.random.Generator, rate: int) -> np.ndarray:
    """Three tones with overtones, of 0.1 to 0.2 s each, in noise, with some silence around."""
    base = generator.uniform(250.0, 600.0)
    parts = [np.zeros(int(generator.uniform(0.05, 0.3) * rate))]
    for tone in MELODIES[text]:
        count = int(generator.uniform(0.1, 0.2) * rate)
        phase = 2 * np.pi * base * _RATIOS[tone] * np.arange(count) / rate
        sound = sum(np.sin(k * phase + generator.uniform(0, 6)) / k**2 for k in (1, 2, 3))
        parts += [sound * np.hanning(count) ** 0.3, np.zeros(int(generator.uniform(0.0, 0.03) * rate))]
    parts.append(np.zeros(int(generator.uniform(0.05, 0.3) * rate)))
    samples = np.concatenate(parts) * generator.uniform(0.1, 0.6)
    noise = generator.standard_normal(len(samples)) * 10 ** generator.uniform(-4, -2.5)
    return np.clip(samples + noise, -1, 1).astype(np.float32)


PARTS = ('train', 'validation', 'test')


class Clips(NamedTuple):
    triggers: list[Clip]
    others: list[Clip]
    background: list[Clip]


def specs_of(data: TriggerWordDataConfig, part: str) -> tuple[str, ...]:
    """The manifests that a part is in, or is held out of."""
    return data.train if part == 'validation' and data.held_out else getattr(data, part)


def part_files(data: TriggerWordDataConfig, part: str) -> Iterator[Path]:
    """The files and folders that `read_part` opens, whether or not they exist."""
    for spec in (*specs_of(data, part), *getattr(data, f'{part}_background')):
        if not spec.startswith(PREFIX):
            yield from manifest_paths(spec, data_root(data.root))


def read_part(config: TriggerWordConfig, part: str, *, say: Say) -> Clips:
    """The clips of `train`, `validation` or `test`. Raises UserError for what cannot be read."""
    return read_parts(config, [part], say=say)[part]


def read_parts(config: TriggerWordConfig, parts: Iterable[str] = PARTS, *, say: Say) -> dict[str, Clips]:
    """The clips of those of `parts` that the config has. Raises UserError for what cannot be read."""
    data, rate = config.data, config.features.sample_rate
    needed = {*parts, 'train'} if data.held_out else parts
    clips = {part: read_clips(specs, data, rate, say=say) for part in needed if (specs := getattr(data, part))}
    if data.held_out:
        clips['train'], clips['validation'] = split(clips['train'], data)
    return {
        part: Clips(
            *by_trigger(own, data.trigger, specs_of(data, part)),
            read_clips(getattr(data, f'{part}_background'), data, rate, say=say),
        )
        for part, own in ((part, clips[part]) for part in parts if part in clips)
    }


def split(clips: Sequence[Clip], data: TriggerWordDataConfig) -> tuple[list[Clip], list[Clip]]:
    """The rest of the clips, and `data.held_out` of them, some of each text; clips of equal sound stay together.

    Raises UserError if there are fewer to give.
    """
    sounds = np.array([key_of(clip.samples.tobytes()) for clip in clips], np.uint64)
    labels = repeated_or_empty([clip.text for clip in clips])
    is_held_out = held_out_rows(', '.join(data.train), data.held_out, sounds, labels=labels)
    rest = [clip for clip, is_out in zip(clips, is_held_out, strict=True) if not is_out]
    return rest, [clip for clip, is_out in zip(clips, is_held_out, strict=True) if is_out]

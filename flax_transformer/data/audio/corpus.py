"""The recordings of a source, a manifest or a generated one: what is known of each, and its samples."""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.named_files import data_root

from .manifest import Say, Utterance, manifest_paths, open_audio, read_all, read_manifest

MOST_HELD = 1 << 27  # samples of a corpus that is held in memory, 512 MiB; those of a larger one are read as needed


class Recording(NamedTuple):
    text: str
    speaker: str  # '' if unknown
    place: str  # messages name it: 'index.tsv:12'
    num_samples: int


@dataclass(frozen=True)
class Corpus:
    name: str
    recordings: list[Recording]
    samples: Callable[[int], np.ndarray]  # a recording's samples, float32 [num_samples] in -1..1
    files: Sequence[str] = ()  # each recording's; several may be parts of one

    @property
    def count(self) -> int:
        return len(self.recordings)

    def recording(self, number: int) -> Recording:
        return self.recordings[number]

    def chosen(self, numbers: Sequence[int]) -> 'Corpus':
        return Corpus(self.name, [self.recordings[i] for i in numbers], lambda i: self.samples(numbers[i]))


def read_corpus(source: str, data: Any, rate: int, *, say: Say) -> Corpus:
    """Reads a source at `rate` Hz. Raises one UserError for all that cannot be read."""
    if source.startswith(KINDS):
        sounds = list(generated(source, rate))
        recordings = [
            Recording(text, speaker, f'{source}:{number}', len(samples))
            for number, (samples, text, speaker) in enumerate(sounds, start=1)
        ]
        return Corpus(source, recordings, lambda i: sounds[i][0], [recording.place for recording in recordings])

    utterances = read_manifest(source, data_root(data.root), say=say)
    recordings = [
        Recording(utterance.text, utterance.speaker, utterance.place, _num_samples(utterance, rate))
        for utterance in utterances
    ]
    is_small = sum(recording.num_samples for recording in recordings) <= MOST_HELD
    held = read_all(utterances, rate, say=say) if is_small else None

    def samples(number: int) -> np.ndarray:
        sound = open_audio(utterances[number], rate) if held is None else held[number]
        count = recordings[number].num_samples  # headers of compressed files may be off by a few
        return np.pad(sound[:count], (0, max(count - len(sound), 0)))

    return Corpus(source, recordings, samples, [utterance.source.name for utterance in utterances])


def corpus_files(source: str, data: Any) -> Iterator[Path]:
    """The files, or the folder, that `read_corpus` opens."""
    if not source.startswith(KINDS):
        yield from manifest_paths(source, data_root(data.root))


def _num_samples(utterance: Utterance, rate: int) -> int:
    return math.ceil(round(utterance.seconds * utterance.rate) * rate / utterance.rate)


KEYS = '123A456B789C*0#D'
LOW_HZ, HIGH_HZ = (697.0, 770.0, 852.0, 941.0), (1209.0, 1336.0, 1477.0, 1633.0)
LINES = 6
KINDS = ('tones:', 'melodies:')
_SIZES = {
    'tones': {'train': 480, 'validation': 96, 'test': 96},
    'melodies': {'train': 240, 'validation': 60, 'test': 60},
}
_TUNES = {
    'rising': (0, 1, 2),
    'falling': (2, 1, 0),
    'valley': (1, 0, 2),
    'hill': (0, 2, 1),
    'dip': (2, 0, 1),
    'drop': (1, 2, 0),
}
_RATIOS = np.array([1.0, 1.25, 1.5])
_SEED = 1685  # fixed, so that every run holds out the same melodies
Sound = tuple[np.ndarray, str, str]  # samples float32 [T] in -1..1, text, speaker


def generated(name: str, rate: int) -> Iterator[Sound]:
    """The keys of a telephone, `tones:SPLIT`, or `melodies:SPLIT`: pure functions of the split and a number."""
    kind, _, split = name.partition(':')
    sizes = _SIZES[kind]
    if split not in sizes:
        known = ', '.join(f'{kind}:{split}' for split in sizes)
        raise UserError(f'{name!r}: expected one of {known}.{nearest(split, sizes)}')
    make = _tone if kind == 'tones' else _melody
    for number in range(sizes[split]):
        yield make(split, number, rate)


def _tone(split: str, number: int, rate: int) -> Sound:
    """A key's tone, one of four low and one of four high frequencies (ITU-T Q.23), in noise; lines are speakers."""
    generator = np.random.default_rng([list(_SIZES['tones']).index(split), number])
    seconds = generator.uniform(0.1, 0.3)
    key = number % len(KEYS)
    line = number // len(KEYS) % LINES
    pitch = 1 + 0.06 * line / (LINES - 1) - 0.03
    time = np.arange(round(seconds * rate)) / rate
    sines = [
        np.sin(2 * np.pi * (hz * pitch * time + generator.uniform())) for hz in (LOW_HZ[key // 4], HIGH_HZ[key % 4])
    ]
    fade = np.minimum(1, np.minimum(time, time[::-1]) / 0.005)
    level = 10 ** generator.uniform(-1.2, -0.35)
    noise = 10 ** generator.uniform(-3.0, -1.5) * generator.standard_normal(len(time))
    return np.clip(level * fade * sum(sines) + noise, -1, 1).astype(np.float32), KEYS[key], f'line{line}'


def _melody(split: str, number: int, rate: int) -> Sound:
    """Three tones with overtones, in noise, with some silence around; every third is rising."""
    text, *others = _TUNES
    if number % 3:
        text = others[(number // 3 * 2 + number % 3) % len(others)]
    generator = np.random.default_rng([_SEED, zlib.crc32(split.encode()), number])
    base = generator.uniform(250.0, 600.0)
    parts = [np.zeros(int(generator.uniform(0.05, 0.3) * rate))]
    for pitch in _TUNES[text]:
        count = int(generator.uniform(0.1, 0.2) * rate)
        phase = 2 * np.pi * base * _RATIOS[pitch] * np.arange(count) / rate
        sound = sum(np.sin(k * phase + generator.uniform(0, 6)) / k**2 for k in (1, 2, 3))
        parts += [sound * np.hanning(count) ** 0.3, np.zeros(int(generator.uniform(0.0, 0.03) * rate))]
    parts.append(np.zeros(int(generator.uniform(0.05, 0.3) * rate)))
    samples = np.concatenate(parts) * generator.uniform(0.1, 0.6)
    noise = generator.standard_normal(len(samples)) * 10 ** generator.uniform(-4, -2.5)
    return np.clip(samples + noise, -1, 1).astype(np.float32), text, ''

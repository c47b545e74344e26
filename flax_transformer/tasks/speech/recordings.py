"""Recordings with transcripts by name: manifests, folders, generated touch-tones; and strings of several of them.

An example to train or score on is a recording or a string. It has a number; its samples and transcript are a pure
function of it and the seed.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.audio.manifest import Say, Utterance, open_audio, read_all, read_manifest
from flax_transformer.data.audio.rows import manifest_paths
from flax_transformer.data.held_out import held_out_rows, repeated_or_empty
from flax_transformer.data.named_files import data_root

from .config import SpeechDataConfig, StringsConfig

MOST_HELD = 1 << 27  # samples of a corpus that is held in memory, 512 MiB; those of a larger one are read as needed


class Recording(NamedTuple):
    """What is known of a recording without its samples."""

    text: str
    speaker: str  # '' if unknown
    place: str  # messages name it: 'index.tsv:12'
    num_samples: int  # counted at the features' rate


@dataclass(frozen=True)
class Corpus:
    """Recordings with transcripts; each may be an example to train or score on."""

    name: str
    recordings: list[Recording]
    samples: Callable[[int], np.ndarray]  # a recording's samples, float32 [num_samples] in -1..1
    files: Sequence[str] = ()  # where each was read; several may be segments of one

    @property
    def count(self) -> int:
        return len(self.recordings)

    def recording(self, number: int) -> Recording:
        return self.recordings[number]

    def chosen(self, numbers: Sequence[int]) -> 'Corpus':
        """Some of the recordings, numbered anew."""
        return Corpus(self.name, [self.recordings[i] for i in numbers], lambda i: self.samples(numbers[i]))


def split(corpus: Corpus, held_out: int) -> tuple[Corpus, Corpus]:
    """The rest of a corpus, and `held_out` of its recordings, some of each text: segments of a file stay together.

    Raises UserError if the corpus has fewer to give.
    """
    # Numbers, not names: the folder may be moved.
    names = [str(number) for number in np.unique(corpus.files, return_inverse=True)[1]]
    labels = repeated_or_empty([recording.text for recording in corpus.recordings])
    is_held_out = held_out_rows(corpus.name, held_out, names, labels=labels)
    rest, taken = (corpus.chosen(np.flatnonzero(rows).tolist()) for rows in (~is_held_out, is_held_out))
    return rest, replace(taken, name=f'{corpus.name}, held out')


def read_corpus(source: str, data: SpeechDataConfig, rate: int, *, say: Say) -> Corpus:
    """Reads a source at `rate` Hz. Raises one UserError for all recordings that cannot be read, with their places."""
    if _is_made(source):
        return tones_corpus(source, rate)
    utterances = read_manifest(source, data_root(data.root), say=say)
    recordings = [
        Recording(utterance.text, utterance.speaker, utterance.place, _num_samples(utterance, rate))
        for utterance in utterances
    ]
    is_small = sum(recording.num_samples for recording in recordings) <= MOST_HELD
    held = read_all(utterances, rate, say=say) if is_small else None

    def samples(index: int) -> np.ndarray:
        sound = open_audio(utterances[index], rate) if held is None else held[index]
        return fitted(sound, recordings[index].num_samples)

    return Corpus(source, recordings, samples, [utterance.source.name for utterance in utterances])


def test_files(data: SpeechDataConfig) -> Iterable[Path]:
    """The files, or the folder, that `read_corpus` opens for data.test, whether or not they exist."""
    return () if _is_made(data.test) else manifest_paths(data.test, data_root(data.root))


def _is_made(source: str) -> bool:
    return source.partition(':')[0] == 'tones'


def tones_corpus(name: str, rate: int) -> Corpus:
    """`tones:train`, `tones:validation` or `tones:test`: the sixteen keys of a telephone under noise.

    A key's tone is the sum of one of four low and one of four high frequencies (ITU-T Q.23). Lengths, levels and noise
    vary from recording to recording, and pitch by up to 3 % from line to line, the corpus's speakers.
    """
    split = name.partition(':')[2]
    if split not in SIZES:
        known = ', '.join(f'tones:{split}' for split in SIZES)
        raise UserError(f'{name!r}: expected one of {known}.{nearest(split, SIZES)}')
    pressed = [tone(split, index) for index in range(SIZES[split])]
    recordings = [
        Recording(key, line, f'{name}:{number}', round(seconds * rate))
        for number, (key, line, seconds) in enumerate(pressed, start=1)
    ]
    held = [tone_samples(split, index, rate) for index in range(len(pressed))]
    return Corpus(name, recordings, held.__getitem__, [recording.place for recording in recordings])


def fitted(samples: np.ndarray, count: int) -> np.ndarray:
    """Exactly `count` samples: headers of compressed files may be off by a few."""
    return np.pad(samples[:count], (0, max(count - len(samples), 0)))


def _num_samples(utterance: Utterance, rate: int) -> int:
    """The samples after resampling, as `data.audio.reading.resampled` counts."""
    frames = round(utterance.seconds * utterance.rate)
    return math.ceil(frames * rate / utterance.rate) if utterance.rate != rate else frames


KEYS = '123A456B789C*0#D'
LOW_HZ, HIGH_HZ = (697.0, 770.0, 852.0, 941.0), (1209.0, 1336.0, 1477.0, 1633.0)
LINES = 6
SIZES = {'train': 480, 'validation': 96, 'test': 96}


class Tone(NamedTuple):
    key: str
    line: str  # the line is its speaker
    seconds: float


def tone(split: str, index: int) -> Tone:
    """The key, line and length of recording `index` of a split: a pure function of both."""
    generator = _generator(split, index)
    return Tone(KEYS[index % len(KEYS)], f'line{index // len(KEYS) % LINES}', float(generator.uniform(0.1, 0.3)))


def tone_samples(split: str, index: int, rate: int) -> np.ndarray:
    """The samples of a recording at `rate` Hz, float32 [T] in -1..1, with 5 ms of fading at both ends."""
    generator = _generator(split, index)
    seconds = generator.uniform(0.1, 0.3)
    number = index % len(KEYS)
    pitch = 1 + 0.06 * (index // len(KEYS) % LINES) / (LINES - 1) - 0.03
    time = np.arange(round(seconds * rate)) / rate
    sines = [
        np.sin(2 * np.pi * (hz * pitch * time + generator.uniform()))
        for hz in (LOW_HZ[number // 4], HIGH_HZ[number % 4])
    ]
    fade = np.minimum(1, np.minimum(time, time[::-1]) / 0.005)
    level = 10 ** generator.uniform(-1.2, -0.35)
    noise = 10 ** generator.uniform(-3.0, -1.5) * generator.standard_normal(len(time))
    return np.clip(level * fade * sum(sines) + noise, -1, 1).astype(np.float32)


def _generator(split: str, index: int) -> np.random.Generator:
    return np.random.default_rng([list(SIZES).index(split), index])


QUIET, LOUD = -80.0, -50.0  # dB of full scale: the noise that a string's gaps are filled with


class _String(NamedTuple):
    clips: tuple[int, ...]  # numbers of recordings
    starts: tuple[int, ...]  # each in samples
    whole: Recording


class Strings:
    """Recordings of one speaker joined, with gaps of noise before, between and after them.

    The speaker, how many recordings, which ones, and the gaps are drawn at random, each speaker as often as any other.
    For training, shorter strings are drawn more often, so that those of each length have as many recordings in all:
    otherwise a model hardly learns to recognize a recording by itself.
    """

    def __init__(
        self,
        corpus: Corpus,
        config: StringsConfig,
        *,
        rate: int,
        most_samples: int,
        seed: int,
        is_training: bool = False,
    ) -> None:
        """`most_samples`: no string is longer; it may end early. Each recording must fit."""
        self._corpus = corpus
        self._seed = seed
        self._most_gap = round(config.most_gap_ms * rate / 1000)
        self._most_samples = most_samples
        self._of_speaker: dict[str, list[int]] = {}
        for index, recording in enumerate(corpus.recordings):
            self._of_speaker.setdefault(recording.speaker, []).append(index)
        self._speakers = sorted(self._of_speaker)
        self._lengths = np.arange(config.fewest, config.most + 1)
        shares = 1 / self._lengths if is_training else np.ones(len(self._lengths))
        self._shares = shares / shares.sum()
        self.count = max(round(corpus.count / float(self._shares @ self._lengths)), 1)
        self._string = lru_cache(4096)(self._drawn)

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, purpose, number])))

    def _drawn(self, number: int) -> _String:
        generator = self._generator(0, number)
        clips = self._of_speaker[self._speakers[generator.integers(len(self._speakers))]]
        wanted = int(generator.choice(self._lengths, p=self._shares))
        drawn = [clips[i] for i in generator.integers(len(clips), size=wanted)]
        gaps = generator.integers(self._most_gap + 1, size=wanted + 1)
        gaps[[0, -1]] *= generator.random(2) < 0.5  # a recording may be cut close
        gaps = gaps.tolist()
        chosen = []
        starts = []
        end = 0
        for clip, gap in zip(drawn, gaps, strict=False):
            length = self._corpus.recordings[clip].num_samples
            gap = min(gap, self._most_samples - length - end) if not chosen else gap
            if end + gap + length > self._most_samples:
                break
            chosen.append(clip)
            starts.append(end + gap)
            end += gap + length
        texts, speakers, places, _ = zip(*map(self._corpus.recording, chosen), strict=True)
        num_samples = min(end + gaps[-1], self._most_samples)
        whole = Recording(' '.join(texts), speakers[0], ' + '.join(places), num_samples)
        return _String(tuple(chosen), tuple(starts), whole)

    def recording(self, number: int) -> Recording:
        return self._string(number).whole

    def samples(self, number: int) -> np.ndarray:
        string, generator = self._string(number), self._generator(1, number)
        level = 10 ** (generator.uniform(QUIET, LOUD) / 20)
        sound = level * generator.standard_normal(string.whole.num_samples, np.float32)
        for clip, start in zip(string.clips, string.starts, strict=True):
            samples = self._corpus.samples(clip)
            sound[start : start + len(samples)] += samples
        return np.clip(sound, -1, 1).astype(np.float32)


Examples = Corpus | Strings  # they are numbered; `count` of them are an epoch, though strings never end

"""Recordings with transcripts by name: manifests, folders, generated touch-tones."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.audio.manifest import Utterance, open_audio, read_all, read_manifest
from flax_transformer.data.named_files import data_root
from flax_transformer.tasks.speech.config import SpeechDataConfig, StringsConfig

MOST_HELD = 1 << 27  # samples of a corpus that is held in memory, 512 MiB; those of a larger one are read as needed
Say = Callable[[str], None]


class Recording(NamedTuple):
    """What is known of a recording without its samples."""

    text: str
    speaker: str  # '' if unknown
    place: str  # for messages: 'index.tsv:12'
    num_samples: int  # at the features' rate


class Corpus(Protocol):
    """Recordings with transcripts."""

    name: str
    recordings: list[Recording]

    def samples(self, index: int) -> np.ndarray:
        """The samples of a recording, float32 [num_samples] in -1..1."""


def read_corpus(source: str, data: SpeechDataConfig, rate: int, *, say: Say) -> Corpus:
    """The recordings of a source at `rate` Hz; SpeechDataConfig lists the forms of its name.

    Raises one UserError for all recordings that cannot be read, with their places.
    """
    if source.partition(':')[0] == 'tones':
        return Tones(source, rate)
    return Recordings(source, read_manifest(source, data_root(data.root), say=say), rate, say=say)


class Recordings:
    """The recordings of a manifest."""

    def __init__(self, name: str, utterances: list[Utterance], rate: int, *, say: Say) -> None:
        self.name, self._utterances, self._rate = name, utterances, rate
        self.recordings = [
            Recording(each.text, each.speaker, each.place, _num_samples(each, rate)) for each in utterances
        ]
        is_small = sum(each.num_samples for each in self.recordings) <= MOST_HELD
        self._held = read_all(utterances, rate, say=say) if is_small else None

    def samples(self, index: int) -> np.ndarray:
        held = self._held
        found = open_audio(self._utterances[index], self._rate) if held is None else held[index]
        return fitted(found, self.recordings[index].num_samples)


class Tones:
    """`tones:train`, `tones:validation` and `tones:test`: see `tasks.speech.recordings`."""

    def __init__(self, name: str, rate: int) -> None:
        self.name, self._split = name, name.partition(':')[2]
        if self._split not in SIZES:
            raise UserError(
                f'{name!r}: expected one of {", ".join(f"tones:{split}" for split in SIZES)}.'
                f'{nearest(self._split, SIZES)}'
            )
        self.recordings = []
        for index in range(SIZES[self._split]):
            key, line, seconds = tone(self._split, index)
            self.recordings.append(Recording(key, line, f'{name}:{index + 1}', round(seconds * rate)))
        self._held = [tone_samples(self._split, index, rate) for index in range(SIZES[self._split])]

    def samples(self, index: int) -> np.ndarray:
        return self._held[index]


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
    """One press of a key."""

    key: str
    line: str  # as a speaker
    seconds: float


def tone(split: str, index: int) -> Tone:
    """The key, line and length of recording `index` of a split: a pure function of both."""
    generator = _generator(split, index)
    return Tone(KEYS[index % len(KEYS)], f'line{index // len(KEYS) % LINES}', float(generator.uniform(0.1, 0.3)))


def tone_samples(split: str, index: int, rate: int) -> np.ndarray:
    """The samples of a recording at `rate` Hz, float32 [T] in -1..1, with 5 ms of fading at both ends."""
    generator = _generator(split, index)
    seconds = generator.uniform(0.1, 0.3)
    number = KEYS.index(tone(split, index).key)
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


class Examples(Protocol):
    """Examples by number."""

    count: int  # of different examples; those of strings do not end, and this many are as good as an epoch

    def num_samples(self, number: int) -> int: ...

    def text(self, number: int) -> str: ...

    def speaker(self, number: int) -> str: ...

    def place(self, number: int) -> str:
        """Names the recordings for messages."""

    def samples(self, number: int) -> np.ndarray:
        """Float32 [num_samples(number)] in -1..1."""


class Single:
    """The recordings of a corpus, some of them: an example each."""

    def __init__(self, corpus: Corpus, chosen: list[int]) -> None:
        self._corpus, self._chosen, self.count = corpus, chosen, len(chosen)

    def num_samples(self, number: int) -> int:
        return self._corpus.recordings[self._chosen[number]].num_samples

    def text(self, number: int) -> str:
        return self._corpus.recordings[self._chosen[number]].text

    def speaker(self, number: int) -> str:
        return self._corpus.recordings[self._chosen[number]].speaker

    def place(self, number: int) -> str:
        return self._corpus.recordings[self._chosen[number]].place

    def samples(self, number: int) -> np.ndarray:
        return self._corpus.samples(self._chosen[number])


class _String(NamedTuple):
    clips: tuple[int, ...]  # numbers of recordings
    starts: tuple[int, ...]  # in samples
    num_samples: int


class Strings:
    """Recordings of one speaker joined, with gaps of noise before, between and after them.

    The speaker, how many recordings, which ones, and the gaps are drawn at random, each speaker as often as any other.
    For training, shorter strings are drawn more often, so that those of each length have as many recordings in all:
    otherwise a model hardly learns to recognize a recording by itself.
    """

    def __init__(
        self,
        corpus: Corpus,
        chosen: list[int],
        config: StringsConfig,
        *,
        rate: int,
        most_samples: int,
        seed: int,
        is_training: bool = False,
    ) -> None:
        """`most_samples`: no string is longer; it may end early. Each of the chosen recordings must fit."""
        self._corpus, self._seed = corpus, seed
        self._most_gap, self._most_samples = round(config.most_gap_ms * rate / 1000), most_samples
        self._of_speaker: dict[str, list[int]] = {}
        for index in chosen:
            self._of_speaker.setdefault(corpus.recordings[index].speaker, []).append(index)
        self._speakers = sorted(self._of_speaker)
        self._lengths = np.arange(config.fewest, config.most + 1)
        shares = 1 / self._lengths if is_training else np.ones(len(self._lengths))
        self._shares = shares / shares.sum()
        self.count = max(round(len(chosen) / float(self._shares @ self._lengths)), 1)
        self._string = lru_cache(4096)(self._drawn)

    def _generator(self, number: int, purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, purpose, number])))

    def _drawn(self, number: int) -> _String:
        generator = self._generator(number, 0)
        clips = self._of_speaker[self._speakers[generator.integers(len(self._speakers))]]
        wanted = int(generator.choice(self._lengths, p=self._shares))
        drawn = [clips[i] for i in generator.integers(len(clips), size=wanted)]
        gaps = generator.integers(self._most_gap + 1, size=wanted + 1)
        gaps[[0, -1]] *= generator.random(2) < 0.5  # as in a recording that is cut close
        gaps = gaps.tolist()
        chosen, starts, end = [], [], 0
        for clip, gap in zip(drawn, gaps, strict=False):
            length = self._corpus.recordings[clip].num_samples
            gap = min(gap, self._most_samples - length - end) if not chosen else gap
            if end + gap + length > self._most_samples:
                break
            chosen.append(clip)
            starts.append(end + gap)
            end += gap + length
        return _String(tuple(chosen), tuple(starts), min(end + gaps[-1], self._most_samples))

    def num_samples(self, number: int) -> int:
        return self._string(number).num_samples

    def text(self, number: int) -> str:
        return ' '.join(self._corpus.recordings[clip].text for clip in self._string(number).clips)

    def speaker(self, number: int) -> str:
        return self._corpus.recordings[self._string(number).clips[0]].speaker

    def place(self, number: int) -> str:
        return ' + '.join(self._corpus.recordings[clip].place for clip in self._string(number).clips)

    def samples(self, number: int) -> np.ndarray:
        string, generator = self._string(number), self._generator(number, 1)
        level = 10 ** (generator.uniform(QUIET, LOUD) / 20)
        found = level * generator.standard_normal(string.num_samples, np.float32)
        for clip, start in zip(string.clips, string.starts, strict=True):
            samples = self._corpus.samples(clip)
            found[start : start + len(samples)] += samples
        return np.clip(found, -1, 1).astype(np.float32)

"""What a model is trained and scored on: recordings as they are, or strings of several recordings of one speaker.

An example is a number; its samples and transcript are a pure function of it and the seed.
"""

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from flax_transformer.tasks.speech.config import StringsConfig
from flax_transformer.tasks.speech.recordings import Corpus

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

"""Examples to train or score on, recordings or strings of several, and batches of them of a few static shapes.

An example has a number; its samples and transcript are a pure function of it and the seed.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.data.audio.corpus import Corpus, Recording
from flax_transformer.data.audio.reading import faster
from flax_transformer.data.held_out import held_out_rows, repeated_or_empty
from flax_transformer.data.order import Order
from flax_transformer.engine.batches import NumberedBatches

from .config import SpeechConfig, StringsConfig


def split(corpus: Corpus, held_out: int) -> tuple[Corpus, Corpus]:
    """The rest of a corpus, and `held_out` recordings, some of each text; segments of a file stay together."""
    # Numbers, not names: the folder may be moved.
    names = [str(number) for number in np.unique(corpus.files, return_inverse=True)[1]]
    labels = repeated_or_empty([recording.text for recording in corpus.recordings])
    is_held_out = held_out_rows(corpus.name, held_out, names, labels=labels)
    rest, taken = (corpus.chosen(np.flatnonzero(rows).tolist()) for rows in (~is_held_out, is_held_out))
    return rest, replace(taken, name=f'{corpus.name}, held out')


QUIET, LOUD = -80.0, -50.0  # dB of full scale: the noise that a string's gaps are filled with


class _String(NamedTuple):
    clips: list[int]  # numbers of recordings
    starts: list[int]  # samples
    whole: Recording


class Strings:
    """Recordings of one speaker joined, with gaps of noise before, between and after them.

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
        """`most_samples`: no string is longer; each recording must fit."""
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

    def _drawn(self, number: int) -> _String:
        generator = generator_of(self._seed, 0, number)
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
        return _String(chosen, starts, whole)

    def recording(self, number: int) -> Recording:
        return self._string(number).whole

    def samples(self, number: int) -> np.ndarray:
        string = self._string(number)
        generator = generator_of(self._seed, 1, number)
        level = 10 ** (generator.uniform(QUIET, LOUD) / 20)
        sound = level * generator.standard_normal(string.whole.num_samples, np.float32)
        for clip, start in zip(string.clips, string.starts, strict=True):
            samples = self._corpus.samples(clip)
            sound[start : start + len(samples)] += samples
        return np.clip(sound, -1, 1).astype(np.float32)


def generator_of(seed: int, purpose: int, number: int) -> np.random.Generator:
    """Random numbers for a purpose: 0 and 1 are those of `Strings`, 2 and 3 those of batches."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, purpose, number])))


Examples = Corpus | Strings  # numbered; `count` of them are an epoch, though strings never end

BLOCK = 16  # batches whose examples are sorted by length
_CANDIDATES = 64  # quantiles of the examples' lengths; the lengths of batches are among them
_DRAWN = 1024  # examples whose lengths decide the lengths of batches
# Purposes of random numbers.
_SPEED = 2
_ORDER = 3


class Batch(NamedTuple):
    """Rows of utterances; a row of zeros weighs nothing. R rows, T samples, L labels."""

    samples: np.ndarray  # [R, T] float32, in -1..1
    num_samples: np.ndarray  # [R] int32; 0 for an empty row
    labels: np.ndarray  # [R, L] int32, padded with 0
    num_labels: np.ndarray  # [R] int32


class Planned(NamedTuple):
    numbers: list[int]  # examples
    speeds: list[float]
    slots: int  # samples of each row


def fill(waveforms: Sequence[np.ndarray], labels: Sequence[Sequence[int]], *, slots: int, most_labels: int) -> Batch:
    rows = len(waveforms)
    batch = Batch(
        np.zeros((rows, slots), np.float32),
        np.array([len(waveform) for waveform in waveforms], np.int32),
        np.zeros((rows, most_labels), np.int32),
        np.array([len(ids) for ids in labels], np.int32),
    )
    for row, (waveform, ids) in enumerate(zip(waveforms, labels, strict=True)):
        batch.samples[row, : len(waveform)] = waveform
        batch.labels[row, : len(ids)] = ids
    return batch


def lengths_for(num_samples: Sequence[int], most: int, count: int, *, multiple: int) -> list[int]:
    """The at most `count` lengths of batches, ascending, that waste the least on padding; the longest holds `most`.

    >>> lengths_for([100, 110, 300, 310, 320, 440], most=450, count=3, multiple=10)
    [110, 320, 450]
    """
    last = -(-most // multiple) * multiple
    if count == 1:
        return [last]
    needed = np.minimum(-(-np.sort(num_samples) // multiple) * multiple, last)
    candidates = np.unique(np.quantile(needed, np.linspace(0, 1, _CANDIDATES + 1)[1:], method='higher')).tolist()
    ends = np.searchsorted(needed, candidates, side='right').tolist()  # how many examples each is long enough for

    # For each candidate: the least total length of rows up to it, and the lengths that give it.
    best = [(end * length, (length,)) for end, length in zip(ends, candidates, strict=True)]
    for _ in range(count - 2):
        more = []
        for i, (end, length) in enumerate(zip(ends, candidates, strict=True)):
            added = [
                (cost + (end - ends[j]) * length, (*lengths, length)) for j, (cost, lengths) in enumerate(best[:i])
            ]
            more.append(min([best[i], *added]))
        best = more
    totals = [(cost + (len(needed) - end) * last, lengths) for (cost, lengths), end in zip(best, ends, strict=True)]
    return sorted({*min(totals)[1], last})


def played(num_samples: int, speed: float) -> int:
    return max(int((num_samples - 1) / speed), 0) + 1


class TrainingBatches(NumberedBatches):
    """Batches without end: a pure function of the seed.

    Examples are drawn by blocks of BLOCK batches. In a block they are sorted by length, and its batches shuffled.
    """

    def __init__(self, config: SpeechConfig, prepared: Any, own_rows: np.ndarray) -> None:
        """`prepared`: `training.Prepared`; `own_rows`: this process's rows of a batch."""
        super().__init__()
        self.name = config.data.train
        self._examples = prepared.train
        self._encode = prepared.units.encode
        self._most_labels = prepared.most_labels
        self._rows = config.training.batch_size
        self._own_rows = own_rows.tolist()
        self._speed = config.perturbation.speed
        self._most_samples = config.most_samples
        self._seed = config.seed

        self.is_made = isinstance(self._examples, Strings)
        self._order = None
        self._block_size = BLOCK * self._rows
        if not self.is_made:
            count = self._examples.count
            self._order = Order([count], [Fraction(1)], block_size=self._block_size, seed=self._seed)
            self._block_size = min(self._block_size, count)
        self._batches_per_block = -(-self._block_size // self._rows)
        self.lengths = self._lengths(config.data.num_lengths, config.features.hop * config.model.stride)
        self._block = lru_cache(4)(self._planned)

    def _lengths(self, count: int, multiple: int) -> list[int]:
        numbers = range(self._examples.count if self._order else _DRAWN)
        some = [self._num_samples(i) for i in numbers[:: -(-len(numbers) // _DRAWN)]]
        speeds = self._generator(_SPEED, -1).uniform(-1, 1, len(some))
        drawn = [min(played(n, self._speed**x), self._most_samples) for n, x in zip(some, speeds, strict=True)]
        most = self._most_samples
        if self._order:
            most = min(most, played(max(map(self._num_samples, numbers)), 1 / self._speed))
        return lengths_for(drawn, most, count, multiple=multiple)

    def _num_samples(self, number: int) -> int:
        return self._examples.recording(number).num_samples

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        return generator_of(self._seed, purpose, number + 1)

    def _planned(self, block: int) -> list[Planned]:
        if self._order is None:
            numbers = np.arange(block * self._block_size, (block + 1) * self._block_size)
        else:
            numbers = self._order.block(block).indices
        lengths = np.array(list(map(self._num_samples, numbers.tolist())))
        # An example must not become longer than the longest row.
        exponents = self._generator(_SPEED, block).uniform(-1, 1, len(numbers))
        speeds = np.maximum(self._speed**exponents, lengths / self._most_samples)
        lengths = np.array(list(map(played, lengths.tolist(), speeds.tolist())))
        batches = np.array_split(np.argsort(lengths, kind='stable'), self._batches_per_block)
        plans = []
        for i in self._generator(_ORDER, block).permutation(len(batches)):
            chosen = batches[i]
            slots = next(length for length in self.lengths if length >= lengths[chosen].max())
            plans.append(Planned(numbers[chosen].tolist(), speeds[chosen].tolist(), slots))
        return plans

    def planned(self, number: int) -> Planned:
        return self._block(number // self._batches_per_block)[number % self._batches_per_block]

    def batch(self, number: int) -> Batch:
        plan = self.planned(number)
        waveforms = []
        labels = []
        for row in self._own_rows:
            if row >= len(plan.numbers):  # an empty row
                waveforms.append(np.zeros(0, np.float32))
                labels.append([])
                continue
            samples = self._examples.samples(plan.numbers[row])
            speed = plan.speeds[row]
            waveforms.append(samples if speed == 1 else faster(samples, speed, played(len(samples), speed)))
            labels.append(self._encode(self._examples.recording(plan.numbers[row]).text))
        return fill(waveforms, labels, slots=plan.slots, most_labels=self._most_labels)

    def padding(self) -> float:
        """The share of the first block's samples that are padding."""
        plans = self._block(0)
        slots = self._rows * sum(plan.slots for plan in plans)
        filled = sum(played(self._num_samples(i), speed) for plan in plans for i, speed in zip(*plan[:2], strict=True))
        return 1 - filled / slots

    def describe(self, position: Any) -> dict[str, Any]:
        return {'recordings': [self._examples.recording(i).place for i in self.planned(position['batch']).numbers]}

    def epoch(self, position: Any) -> float:
        return position['batch'] / self._batches_per_block * self._block_size / self._examples.count

"""Examples in batches of a few static shapes, and the endless batches of training."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.data.order import Order
from flax_transformer.engine.batches import NumberedBatches

from .config import SpeechConfig
from .recordings import Strings

BLOCK = 16  # batches whose examples are sorted by length
_CANDIDATES = 64  # quantiles of the examples' lengths; the lengths of batches are among them
_DRAWN = 1024  # examples whose lengths decide the lengths of batches
_SPEED, _ORDER = 2, 3  # purposes of random numbers: `Strings` has 0 and 1


class Batch(NamedTuple):
    """Rows of utterances; a row of zeros weighs nothing. R rows, T samples, L labels."""

    samples: np.ndarray  # [R, T] float32, in -1..1
    num_samples: np.ndarray  # [R] int32; 0 for an empty row
    labels: np.ndarray  # [R, L] int32, padded with 0
    num_labels: np.ndarray  # [R] int32


class Planned(NamedTuple):
    numbers: tuple[int, ...]  # its examples
    speeds: tuple[float, ...]  # how fast each is played
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

    >>> lengths_for([100, 110, 300, 310, 320, 440], most=450, count=2, multiple=10)
    [110, 450]
    >>> lengths_for([100, 110, 300, 310, 320, 440], most=450, count=3, multiple=10)
    [110, 320, 450]
    """
    last = -(-most // multiple) * multiple
    needed = np.minimum(-(-np.sort(num_samples) // multiple) * multiple, last)
    candidates = np.unique(np.quantile(needed, np.linspace(0, 1, _CANDIDATES + 1)[1:], method='higher')).tolist()
    ends = np.searchsorted(needed, candidates, side='right').tolist()  # how many examples each is long enough for

    # For each candidate: the least total length of rows for all examples up to it, and the lengths that give it.
    best = [(end * length, (length,)) for end, length in zip(ends, candidates, strict=True)]
    for _ in range(count - 2):
        more = []
        for i, (end, length) in enumerate(zip(ends, candidates, strict=True)):
            added = [
                (cost + (end - ends[j]) * length, (*lengths, length)) for j, (cost, lengths) in enumerate(best[:i])
            ]
            more.append(min([best[i], *added]))
        best = more
    if count == 1:
        return [last]
    totals = [(cost + (len(needed) - end) * last, lengths) for (cost, lengths), end in zip(best, ends, strict=True)]
    _, lengths = min(totals)
    return sorted({*lengths, last})


def faster(samples: np.ndarray, speed: float) -> np.ndarray:
    """Samples [T] played `speed` times as fast, [T / speed], by linear interpolation: the pitch changes, too."""
    if speed == 1:
        return samples
    moments = np.arange(played(len(samples), speed)) * speed
    return np.interp(moments, np.arange(len(samples)), samples).astype(np.float32)


def played(num_samples: int, speed: float) -> int:
    return max(int((num_samples - 1) / speed), 0) + 1


class TrainingBatches(NumberedBatches):
    """Batches without end: a pure function of the seed.

    Examples are drawn by blocks of BLOCK batches. In a block they are sorted by length, so that a batch wastes little
    on padding, and its batches shuffled.
    """

    def __init__(self, config: SpeechConfig, prepared: Any, own_rows: np.ndarray) -> None:
        """`prepared`: `training.Prepared`; `own_rows`: the numbers of this process's rows of a batch."""
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

        self._order = None
        self._block_size = BLOCK * self._rows
        if not isinstance(self._examples, Strings):
            count = self._examples.count
            self._order = Order([count], [Fraction(1)], block_size=self._block_size, seed=self._seed)
            self._block_size = min(self._block_size, count)
        self._batches_per_block = -(-self._block_size // self._rows)
        self.lengths = self._lengths(config.data.num_lengths, config.features.hop * config.model.stride)
        self._block = lru_cache(4)(self._planned)

    def _lengths(self, count: int, multiple: int) -> list[int]:
        """The lengths of rows: by those of some examples, played at random speeds."""
        numbers = range(self._examples.count if self._order else _DRAWN)
        some = [self._examples.recording(i).num_samples for i in numbers[:: -(-len(numbers) // _DRAWN)]]
        speeds = self._generator(_SPEED, -1).uniform(-1, 1, len(some))
        drawn = [min(played(n, self._speed**x), self._most_samples) for n, x in zip(some, speeds, strict=True)]
        most = self._most_samples
        if self._order:
            most = min(most, played(max(self._examples.recording(i).num_samples for i in numbers), 1 / self._speed))
        return lengths_for(drawn, most, count, multiple=multiple)

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, purpose, number + 1])))

    def _planned(self, block: int) -> list[Planned]:
        if self._order is None:
            numbers = np.arange(block * self._block_size, (block + 1) * self._block_size)
        else:
            numbers = self._order.block(block).indices
        lengths = np.array([self._examples.recording(i).num_samples for i in numbers.tolist()])
        generator = self._generator(_SPEED, block)
        # An example must not become longer than the longest row.
        speeds = np.maximum(self._speed ** generator.uniform(-1, 1, len(numbers)), lengths / self._most_samples)
        lengths = np.array(list(map(played, lengths.tolist(), speeds.tolist())))
        by_length = np.argsort(lengths, kind='stable')
        batches = np.array_split(by_length, self._batches_per_block)
        order = self._generator(_ORDER, block).permutation(len(batches))
        return [
            Planned(
                tuple(numbers[chosen].tolist()),
                tuple(speeds[chosen].tolist()),
                next(length for length in self.lengths if length >= lengths[chosen].max()),
            )
            for chosen in (batches[i] for i in order)
        ]

    def planned(self, number: int) -> Planned:
        return self._block(number // self._batches_per_block)[number % self._batches_per_block]

    def batch(self, number: int) -> Batch:
        plan = self.planned(number)
        waveforms, labels = [], []
        for row in self._own_rows:
            if row >= len(plan.numbers):  # an empty row
                waveforms.append(np.zeros(0, np.float32))
                labels.append([])
                continue
            waveforms.append(faster(self._examples.samples(plan.numbers[row]), plan.speeds[row]))
            labels.append(self._encode(self._examples.recording(plan.numbers[row]).text))
        return fill(waveforms, labels, slots=plan.slots, most_labels=self._most_labels)

    def padding(self) -> float:
        """The share of the samples of a block of batches that is padding."""
        plans = self._block(0)
        slots = self._rows * sum(plan.slots for plan in plans)
        filled = sum(
            played(self._examples.recording(number).num_samples, speed)
            for plan in plans
            for number, speed in zip(plan.numbers, plan.speeds, strict=True)
        )
        return 1 - filled / slots

    def describe(self, position: Any) -> dict[str, Any]:
        return {'recordings': [self._examples.recording(i).place for i in self.planned(position['batch']).numbers]}

    def epoch(self, position: Any) -> float:
        return position['batch'] / self._batches_per_block * self._block_size / self._examples.count

"""Recordings with transcripts by name: manifests, folders, generated touch-tones."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.audio.manifest import Utterance, open_audio, read_all, read_manifest
from flax_transformer.data.audio.rows import manifest_paths
from flax_transformer.data.named_files import data_root
from flax_transformer.tasks.speech.config import SpeechDataConfig
from flax_transformer.tasks.speech.tones import SIZES, tone, tone_samples

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
    if _is_made(source):
        return Tones(source, rate)
    return Recordings(source, read_manifest(source, data_root(data.root), say=say), rate, say=say)


def test_files(data: SpeechDataConfig) -> Iterable[Path]:
    """The files, or the folder, that `read_corpus` opens for data.test, whether or not they exist."""
    return () if _is_made(data.test) else manifest_paths(data.test, data_root(data.root))


def _is_made(source: str) -> bool:
    return source.partition(':')[0] == 'tones'


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
    """`tones:train`, `tones:validation` and `tones:test`: see `tasks.speech.tones`."""

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

"""Short recordings, each of the trigger word or of something else, and where the sound is in them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.audio.manifest import read_all, read_manifest
from flax_transformer.data.named_files import data_root
from flax_transformer.tasks.trigger_word.config import TriggerWordDataConfig
from flax_transformer.tasks.trigger_word.melodies import PREFIX, melodies

Say = Callable[[str], None]

_FRAME = 0.02  # seconds
_DEPTH = 20.0  # dB below the loudest frames, and
_RISE = 0.4  # this share of the way from the quietest to the loudest, are still the word
_PAUSE = 0.2  # seconds of less within a word


class Clip(NamedTuple):
    """A short recording."""

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
            found = [(sound, text, f'{spec}:{i}') for i, (sound, text) in enumerate(melodies(spec, rate), start=1)]
        else:
            utterances = read_manifest(spec, data_root(data.root), say=say)
            samples = read_all(utterances, rate, say=say)
            found = [(sound, each.text, each.place) for sound, each in zip(samples, utterances, strict=True)]
        clips += [Clip(sound, text, *extent(sound, rate), place) for sound, text, place in found]
    return clips


def by_trigger(clips: Sequence[Clip], trigger: str, specs: Sequence[str]) -> tuple[list[Clip], list[Clip]]:
    """The clips of the trigger word, at least one, and the others."""
    found = [clip for clip in clips if clip.text == trigger], [clip for clip in clips if clip.text != trigger]
    if not found[0]:
        texts = sorted({clip.text for clip in clips})
        listed = ', '.join(map(repr, texts[:10])) + ', ...' * (len(texts) > 10)
        raise UserError(
            f'{", ".join(specs)}: no recording has the text data.trigger={trigger!r}; the texts are {listed}'
        )
    return found


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

"""The recordings of each part of the data: the trigger word, other sounds, background."""

from collections.abc import Iterable
from typing import NamedTuple

from flax_transformer.tasks.trigger_word.clips import Clip, Say, by_trigger, read_clips
from flax_transformer.tasks.trigger_word.config import Config

PARTS = ('train', 'validation', 'test')


class Clips(NamedTuple):
    """The recordings of a part of the data."""

    triggers: list[Clip]
    others: list[Clip]
    background: list[Clip]


def read_part(config: Config, part: str, *, say: Say) -> Clips:
    """The clips of `train`, `validation` or `test`. Raises UserError for what cannot be read."""
    data, rate = config.data, config.features.sample_rate
    specs = getattr(data, part)
    triggers, others = by_trigger(read_clips(specs, data, rate, say=say), data.trigger, specs)
    return Clips(triggers, others, read_clips(getattr(data, f'{part}_background'), data, rate, say=say))


def read_parts(config: Config, parts: Iterable[str] = PARTS, *, say: Say) -> dict[str, Clips]:
    """The clips of those parts that the config has."""
    return {part: read_part(config, part, say=say) for part in parts if getattr(config.data, part)}

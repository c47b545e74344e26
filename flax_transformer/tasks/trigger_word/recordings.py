"""The recordings of each part of the data: the trigger word, other sounds, background."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from flax_transformer.data.audio.rows import manifest_paths
from flax_transformer.data.named_files import data_root
from flax_transformer.tasks.trigger_word.clips import Clip, Say, by_trigger, read_clips
from flax_transformer.tasks.trigger_word.config import Config, TriggerWordDataConfig
from flax_transformer.tasks.trigger_word.melodies import PREFIX

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


def part_files(data: TriggerWordDataConfig, part: str) -> Iterator[Path]:
    """The files and folders that `read_part` opens, whether or not they exist."""
    for spec in (*getattr(data, part), *getattr(data, f'{part}_background')):
        if not spec.startswith(PREFIX):
            yield from manifest_paths(spec, data_root(data.root))


def read_parts(config: Config, parts: Iterable[str] = PARTS, *, say: Say) -> dict[str, Clips]:
    """The clips of those parts that the config has."""
    return {part: read_part(config, part, say=say) for part in parts if getattr(config.data, part)}

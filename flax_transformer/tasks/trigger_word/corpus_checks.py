"""What is wrong with the recordings, before the first step."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.data.audio.reading import SILENCE
from flax_transformer.data.audit.kinds import table
from flax_transformer.data.audit.report import Finding, Report, TextExample, findings_of, sorted_report
from flax_transformer.tasks.trigger_word.clips import Clip, Clips, read_parts
from flax_transformer.tasks.trigger_word.config import TriggerWordConfig

FEW_TRIGGERS = 50

KINDS = table(
    (
        'no_others',
        'warning',
        'training recordings that are all of the trigger word',
        'has nothing but parts of the word and noise to tell it from',
        'add recordings of other words, above all of similar ones, with another text',
    ),
    (
        'few_triggers',
        'warning',
        f'fewer than {FEW_TRIGGERS} recordings of the trigger word in the training data',
        'learns to know them, but hardly other voices',
        'add recordings, by several people and microphones',
    ),
    (
        'silent',
        'warning',
        'recordings without any sound',
        'learns that silence is the word, or not',
        'remove them, or record them again',
    ),
    (
        'too_long',
        'warning',
        'recordings that do not fit into a scene',
        'never mixes them in whole',
        'raise scenes.seconds, cut them, or name them as background',
    ),
    (
        'cut_word',
        'note',
        'recordings of the trigger word whose sound goes on to the last sample',
        'takes the end of the recording for the end of the word',
        'record a moment of silence after the word',
    ),
    (
        'leaked',
        'warning',
        'validation or test recordings that are also in the training data',
        'trains on them, and their scores are too good',
        'remove them from one of the two',
    ),
    (
        'validation_is_test',
        'warning',
        'test recordings that are also in the validation data',
        'chooses its best checkpoint by them, so the test score is too good',
        'remove them from one of the two',
    ),
)


def report_of(config: TriggerWordConfig, workdir: Path | None, **_: Any) -> Report:
    """What is wrong with the config's recordings; `workdir` changes nothing."""
    return audit(read_parts(config, say=lambda text: None), config)


def audit(parts: dict[str, Clips], config: TriggerWordConfig) -> Report:
    train, findings = parts['train'], list(_between(parts))
    if not train.others:
        findings += _finding('no_others', 'train', train.triggers, len(train.triggers))
    if len(train.triggers) < FEW_TRIGGERS:
        findings += _finding('few_triggers', 'train', train.triggers, 0)
    for part, clips in parts.items():
        findings += _of_clips(part, clips, config)
    counts = {part: len(clips.triggers) + len(clips.others) for part, clips in parts.items()}
    return sorted_report(findings, counts, kinds=KINDS, unit='recordings')


def _finding(kind: str, part: str, found: Sequence[Clip], total: int, detail: str = '') -> Iterator[Finding]:
    shown = (TextExample(clip.place, clip.text) for clip in found)
    return findings_of(KINDS[kind], part, len(found), total, shown, detail)


def _of_clips(part: str, clips: Clips, config: TriggerWordConfig) -> Iterator[Finding]:
    every = [*clips.triggers, *clips.others]
    silent = [clip for clip in every if _is_silent(clip)]
    yield from _finding('silent', part, silent, len(every))
    longest = config.scenes.seconds * config.features.sample_rate
    long = [clip for clip in every if clip.end - clip.start > longest]
    yield from _finding('too_long', part, long, len(every), f'scenes.seconds={config.scenes.seconds:g}')
    margin = config.samples_per_output // 2
    cut = [clip for clip in clips.triggers if clip.end > len(clip.samples) - margin and not _is_silent(clip)]
    yield from _finding('cut_word', part, cut, len(clips.triggers))


def _is_silent(clip: Clip) -> bool:
    return bool(np.max(np.abs(clip.samples)) < SILENCE)


def _between(parts: dict[str, Clips]) -> Iterator[Finding]:
    """Recordings that several parts have, to the sample."""
    key_of = lambda clip: hashlib.sha256(clip.samples.tobytes()).digest()
    keys = {part: [(key_of(clip), clip) for some in clips for clip in some] for part, clips in parts.items()}
    known = {part: Counter(key for key, _ in found) for part, found in keys.items()}
    for kind, first, second in (
        ('leaked', 'train', 'validation'),
        ('leaked', 'train', 'test'),
        ('validation_is_test', 'validation', 'test'),
    ):
        if first in known and second in known:
            shared = [clip for key, clip in keys[second] if key in known[first]]
            yield from _finding(kind, second, shared, len(keys[second]))

"""What is wrong with the recordings, before the first step."""

from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.data.audio.reading import SILENCE
from flax_transformer.data.audit.kinds import SHARED, read_kinds
from flax_transformer.data.audit.report import Report, Rows, findings_of, sorted_report
from flax_transformer.data.repeats import hashes, overlaps

from .config import TriggerWordConfig
from .scenes import Clips, read_parts

FEW_TRIGGERS = 50

KINDS = read_kinds(__file__, few=FEW_TRIGGERS) | {name: SHARED[name] for name in ('leaked', 'validation_is_test')}


def report_of(config: TriggerWordConfig, workdir: Path | None, **_: Any) -> Report:
    return audit(read_parts(config, say=lambda text: None), config)


def audit(parts: dict[str, Clips], config: TriggerWordConfig) -> Report:
    train = parts['train']
    findings = findings_of(KINDS['no_others'], 'train', 0 if train.others else len(train.triggers), 0)
    if len(train.triggers) < FEW_TRIGGERS:
        findings += findings_of(KINDS['few_triggers'], 'train', len(train.triggers), 0)
    tables = {}
    keys = {}
    for name, clips in parts.items():
        both = [*clips.triggers, *clips.others]
        rows = Rows(name, [clip.place for clip in both], {'text': [clip.text for clip in both]})

        silent = [row for row, clip in enumerate(both) if np.max(np.abs(clip.samples)) < SILENCE]
        longest = config.scenes.seconds * config.features.sample_rate
        too_long = [row for row, clip in enumerate(both) if clip.end - clip.start > longest]
        findings += rows.findings(KINDS['silent'], silent)
        findings += rows.findings(KINDS['too_long'], too_long, f'scenes.seconds={config.scenes.seconds:g}')
        tables[name] = rows
        keys[name] = hashes(clip.samples.tobytes() for clip in both)

    for kind, name, shared in overlaps(keys):
        findings += tables[name].findings(KINDS[kind], shared)
    counts = {name: len(rows) for name, rows in tables.items()}
    return sorted_report(findings, counts, kinds=KINDS, unit='recordings')

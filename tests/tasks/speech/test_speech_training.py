"""Training speech to text, whole: what it learns, exact resume, several devices, the commands that serve every task."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny_speech import tiny_config

from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.speech.batches import fill
from flax_transformer.tasks.speech.config import Config, SpeechDataConfig
from flax_transformer.tasks.speech.task import make_trainer
from flax_transformer.tasks.speech.train import train


def test_validation_reports_what_it_learned(tiny_transcriber: Path) -> None:
    lines = [json.loads(line) for line in (tiny_transcriber / 'metrics.jsonl').read_text().splitlines()]
    first, last = (line for line in lines if 'word_error_rate' in str(line) and 'validation' in str(line))
    assert str(last) != str(first)


def test_a_batch_weighs_its_labels_and_not_its_empty_rows() -> None:
    config = tiny_config(batch_size=4)
    trainer = make_trainer(config)
    params = trainer.init_state().params
    waveform = np.random.default_rng(0).uniform(-1, 1, 3000).astype(np.float32)
    nothing = np.zeros(0, np.float32)

    def sums(*rows: tuple[np.ndarray, list[int]]) -> dict[str, float]:
        batch = fill([row[0] for row in rows], [row[1] for row in rows], slots=6400, most_labels=13)
        return {name: float(value) for name, value in jax.device_get(trainer.sums(params, batch)).items()}

    one = sums((waveform, [1, 2]), (nothing, []), (nothing, []), (nothing, []))
    two = sums((waveform, [1, 2]), (waveform, [1, 2]), (waveform, [3] * 13), (nothing, []))
    assert (one['labels'], one['utterances'], one['too_short']) == (2, 1, 0)
    assert (two['labels'], two['utterances'], two['too_short']) == (4, 2, 1)
    assert two['loss'] == pytest.approx(2 * one['loss'], rel=1e-5)
    assert trainer.task.summarize(two) == {
        'loss': pytest.approx(two['loss'] / 4),
        'utterances': 2.0,
        'too_short': 1.0,
    }

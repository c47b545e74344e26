"""examples/language_model.py trains, resumes to the bit on its own text alone, is scored, and writes."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import ROOT

from flax_transformer import UserError, load_config, train
from flax_transformer.cli import main
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.api import load_run

TEXT = 'Ein Füßchen, sagte sie, und noch ein Füßchen.\n' * 12


@pytest.fixture
def config(tmp_path: Path) -> Any:
    (tmp_path / 'text.txt').write_text(TEXT, encoding='utf-8')
    example = load_config(str(ROOT / 'examples' / 'language_model.py'))
    return replace(
        example,
        text=str(tmp_path / 'text.txt'),
        length=8,
        rows=4,
        model=replace(example.model, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, dropout_rate=0.1),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=0.01),
        training=replace(example.training, steps=4, evaluate_every=2, checkpoint_every=2),
    )


@pytest.mark.slow
def test_it_resumes_to_the_bit_and_on_no_other_text(config: Any, tmp_path: Path) -> None:
    whole = train(config, tmp_path / 'whole').path
    cut = tmp_path / 'cut'
    train(replace(config, training=replace(config.training, steps=2)), cut)

    text = tmp_path / 'text.txt'
    text.write_text(TEXT.replace('sie', 'Sie', 1), encoding='utf-8')
    with pytest.raises(UserError, match='the data of language'):
        train(config, cut)

    text.write_text(TEXT, encoding='utf-8')
    train(config, cut)
    ours, theirs = (jax.tree.leaves(load_run(f'{run}@4').params) for run in (cut, whole))
    assert [x.tobytes() for x in map(np.asarray, ours)] == [x.tobytes() for x in map(np.asarray, theirs)]


@pytest.mark.slow
def test_it_is_scored_and_continues_a_text(config: Any, tmp_path: Path, capsys: Any) -> None:
    run = train(config, tmp_path / 'run').path
    scores = [record for record in read_metrics(run) if record['kind'] == 'validation'][-1]
    capsys.readouterr()
    assert main(['evaluate', str(run), '--json']) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed['bits_per_byte'] == pytest.approx(scores['bits_per_byte'], rel=1e-6)

    assert printed['bits_per_byte'] == pytest.approx(printed['loss'] / np.log(2))

    written = sys.modules[type(config).__module__].sample(str(run), 'Ein Fuß', count=9)
    assert written.startswith('Ein Fuß')
    assert len(written) > len('Ein Fuß')


def test_a_text_too_short_for_a_piece_is_refused(config: Any, tmp_path: Path) -> None:
    (tmp_path / 'text.txt').write_text('Ein Fuß')
    with pytest.raises(UserError, match='8 bytes'):
        train(config, tmp_path / 'run')

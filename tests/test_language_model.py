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


def test_it_resumes_to_the_bit_and_on_no_other_text(config: Any, tmp_path: Path) -> None:
    whole = train(config, tmp_path / 'whole').path
    cut = tmp_path / 'cut'
    train(replace(config, training=replace(config.training, steps=2)), cut)

    text = tmp_path / 'text.txt'
    text.write_text(TEXT.replace('sie', 'Sie', 1), encoding='utf-8')
    with pytest.raises(UserError, match='the data of language'):
        train(config, cut)

    text.write_text(TEXT, encoding='utf-8')
    moved = text.rename(tmp_path / 'moved.txt')
    train(replace(config, text=str(moved)), cut)
    ours, theirs = (jax.tree.leaves(load_run(f'{run}@4').params) for run in (cut, whole))
    assert [x.tobytes() for x in map(np.asarray, ours)] == [x.tobytes() for x in map(np.asarray, theirs)]


def test_it_counts_bits_by_character_and_continues_a_text(config: Any, tmp_path: Path, capsys: Any) -> None:
    run = train(config, tmp_path / 'run').path
    scores = [record for record in read_metrics(run) if record['kind'] == 'validation'][-1]
    capsys.readouterr()
    assert main(['evaluate', str(run), '--json']) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed['bits_per_character'] == pytest.approx(scores['bits_per_character'], rel=1e-6)

    # The validation set is the last tenth of the bytes, in pieces of 8; its first byte is only read.
    held_out = TEXT.encode()[round(0.9 * len(TEXT.encode())) :]
    targets = held_out[1 : 1 + (len(held_out) - 1) // 8 * 8]
    bytes_per_character = len(targets) / len(targets.decode(errors='ignore'))
    assert bytes_per_character > 1
    assert printed['bits_per_character'] == pytest.approx(printed['loss'] / np.log(2) * bytes_per_character)

    written = sys.modules[type(config).__module__].sample(str(run), 'Ein Fuß', count=9, temperature=1.0)
    assert written.startswith('Ein Fuß')
    assert len(written) > len('Ein Fuß')


def test_a_text_too_short_for_a_piece_is_refused(config: Any, tmp_path: Path) -> None:
    (tmp_path / 'text.txt').write_text('Ein Fuß')
    with pytest.raises(UserError, match='8 bytes'):
        train(config, tmp_path / 'run')

"""A run that starts from another: its parameters and its tokenizer, trained here or imported."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import TESTS, copy_config

from benchmarks.measuring import write_config
from flax_transformer import Translator, train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.huggingface.folder import read_folder
from flax_transformer.interop.huggingface_runs import import_huggingface
from flax_transformer.tasks.translation.run import Run

FIXTURE = TESTS / 'fixtures' / 'marian'


@pytest.fixture
def config_file(copy_folder: Path, tmp_path: Path) -> Path:
    file = tmp_path / 'tune.py'
    call = f'conftest.copy_config(Path({str(copy_folder)!r}), steps=3, evaluate_every=3, checkpoint_every=3)'
    write_config(file, call)
    return file


def test_a_run_starts_where_the_other_stands(copy_run: Path, copy_folder: Path, tmp_path: Path) -> None:
    config = copy_config(copy_folder, steps=1, log_every=1)
    config = replace(config, data=replace(config.data, validation=''))
    run = train(config, tmp_path / 'run', init_from=copy_run)
    before = [record['loss'] for record in read_metrics(copy_run) if record['kind'] == 'train']
    first = next(record['loss'] for record in read_metrics(run.path))
    assert first < before[0] / 2
    assert run.read_tokenizer().model == Run(copy_run).read_tokenizer().model
    # One step of a warm-up: the parameters are nearly those of the start.
    old, new = (jax.tree.leaves(Translator.from_run(path).params) for path in (copy_run, run.path))
    assert max(np.abs(a - b).max() for a, b in zip(old, new, strict=True)) < 1e-3


def test_another_vocabulary_is_refused_with_the_remedy(copy_run: Path, copy_folder: Path, tmp_path: Path) -> None:
    config = copy_config(copy_folder, steps=1)
    config = replace(config, model=replace(config.model, vocab_size=21, d_ff=65))
    with pytest.raises(UserError, match=r'vocab_size: 20 there, 21 here\n.*d_ff: 64 there, 65 here\nTake its values'):
        train(config, tmp_path / 'run', init_from=copy_run)
    assert not (tmp_path / 'run').exists()


@pytest.mark.slow
def test_an_imported_model_is_fine_tuned_and_exported_back(config_file: Path, tmp_path: Path) -> None:
    imported, tuned, out = tmp_path / 'imported', tmp_path / 'tuned', tmp_path / 'out'
    import_huggingface(FIXTURE, imported)
    command = ['train', str(config_file), '--init-from', str(imported), '--workdir', str(tuned)]
    assert main(command) == 0
    # Model, tokenizer and search are the imported run's, the rest the config file's.
    config, theirs = Run(tuned).read_config(), Run(imported).read_config()
    assert (config.model, config.tokenizer, config.decoding) == (theirs.model, theirs.tokenizer, theirs.decoding)
    assert config.data.train == 'train.{lang}'
    assert CheckpointReader(tuned / 'checkpoints').latest() == 3
    assert main(['export-marian', str(tuned), str(out)]) == 0
    before, after, own = read_folder(FIXTURE), read_folder(out), Translator.from_run(tuned)
    assert after.config == before.config
    assert np.abs(after.params['embedding']['table'] - before.params['embedding']['table']).max() > 1e-6
    np.testing.assert_array_equal(after.params['embedding']['table'][135], 0.0)
    jax.tree.map(np.testing.assert_array_equal, after.params['decoder'], own.params['decoder'])
    assert json.loads((out / 'tokenizer_config.json').read_text()) == before.tokenizer.settings


@pytest.mark.slow
def test_an_imported_run_is_not_trained_on_in_place(config_file: Path, tmp_path: Path, capsys) -> None:
    import_huggingface(FIXTURE, tmp_path / 'imported')
    command = ['train', str(config_file), '--init-from', str(tmp_path / 'imported')]
    assert main([*command, '--workdir', str(tmp_path / 'imported')]) == 2
    assert 'holds a run of another config' in capsys.readouterr().err
    assert main(['train', str(config_file), '--init-from', 'nowhere']) == 2
    assert 'nowhere does not exist' in capsys.readouterr().err

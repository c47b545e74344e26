"""A run with nothing left to do is recognized from its files."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import ROOT, copy_config

from flax_transformer.cli import main
from flax_transformer.cli.train import _print_next
from flax_transformer.common.quiet import quiet
from flax_transformer.engine.runs.finished import finished, seems_finished
from flax_transformer.tasks.classification.config import ClassificationConfig, ClassificationDataConfig
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig
from flax_transformer.tasks.translation import training
from flax_transformer.tasks.translation.run import Run

CONFIG = """from pathlib import Path
from flax_transformer.common.config_json import from_json
from flax_transformer.config import Config

def get_config():
    return from_json(Path({config!r}).read_text(), Config)
"""


def test_a_finished_run_says_so_without_starting_jax(copy_run: Path, tmp_path: Path) -> None:
    """Nor does it read the corpora."""
    (tmp_path / 'copy.py').write_text(CONFIG.format(config=str(copy_run / 'config.json')))
    program = (
        'import sys\nfrom flax_transformer.cli import main\n'
        f'code = main(["train", {str(tmp_path / "copy.py")!r}, "--workdir", {str(copy_run)!r}])\n'
        'print(code, [name for name in ("jax", "grain", "orbax", "tensorflow_datasets") if name in sys.modules])'
    )
    env = os.environ | {'PYTHONPATH': str(ROOT)}
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, env=env, timeout=120)
    assert f'{copy_run} is trained already, to step 250; raise --training.steps to go on' in done.stderr
    assert done.stdout.splitlines()[0] == f'The run is in {copy_run}. Next:'
    assert done.stdout.splitlines()[-1] == '0 []'


@pytest.mark.parametrize(('test', 'files'), [('test.{lang}', ''), ('', ' --source test.in --reference test.out')])
def test_what_comes_next_can_be_typed_without_a_test_set_too(test: str, files: str, capsys) -> None:
    config = copy_config(Path())
    _print_next(replace(config, data=replace(config.data, test=test)), Path('run'))
    assert f'  flax-transformer evaluate run{files}\n' in capsys.readouterr().out


def test_what_comes_next_are_the_commands_of_the_task_and_nothing_if_quiet(capsys) -> None:
    for config, following in (
        (ClassificationConfig(data=ClassificationDataConfig(test='')), 'evaluate run --test test.tsv'),
        (EmbeddingsConfig(), 'neighbors run WORD ...'),
    ):
        _print_next(config, Path('run'))
        assert f'  flax-transformer {following}\n' in capsys.readouterr().out
        with quiet():
            _print_next(config, Path('run'))
        assert capsys.readouterr().out == 'The run is in run.\n'


def test_what_a_start_must_look_at_is_not_called_finished(copy_run: Path, tmp_path: Path) -> None:
    path = shutil.copytree(copy_run, tmp_path / 'run')
    run, config = Run(path), Run(path).read_config().training
    assert finished(run, config)
    assert finished(run, replace(config, steps=251)) is None
    (run.checkpoints / '250.orbax-checkpoint-tmp').mkdir()
    assert finished(run, config) is None
    (run.checkpoints / '250.orbax-checkpoint-tmp').rmdir()
    assert finished(run, config)
    place = run.checkpoints / '250' / 'position' / 'metadata'
    position = json.loads(place.read_text())
    position['progress']['improvement'] = {'by': config.best_by, 'best': 1.0, 'step': 125, 'since': 3}
    place.write_text(json.dumps(position))
    assert 'was stopped early' in seems_finished(run, replace(config, steps=251, patience=3))
    for damaged in (place.read_text().replace('"batches"', '"butches"'), '{', '[]', '{"progress": 3}'):
        place.write_text(damaged)
        assert finished(run, config) is None
    place.unlink()
    assert finished(run, config) is None


def test_what_follows_the_last_step_is_done_by_the_next_start_if_it_was_stopped(
    copy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(shutil.copytree(copy_run, tmp_path / 'run'))
    (tmp_path / 'copy.py').write_text(CONFIG.format(config=str(run.config_file)))
    assert not run.unfinished.exists()
    run.unfinished.touch()
    for ends, code in (([KeyboardInterrupt], 130), ([None], 0), ([], 0)):
        follow = Mock(side_effect=ends)
        monkeypatch.setattr(training, '_finish', follow)
        assert main(['train', str(tmp_path / 'copy.py'), '--workdir', str(run.path)]) == code
        assert follow.call_count == len(ends)
        assert run.unfinished.exists() == bool(code)


@pytest.mark.parametrize('part', ['params', 'training'])
def test_a_damaged_checkpoint_is_not_called_finished(part: str, copy_run: Path, tmp_path: Path) -> None:
    path = shutil.copytree(copy_run, tmp_path / 'run')
    file = max((path / 'checkpoints' / '125' / part).rglob('*'), key=lambda file: file.is_file() * file.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert finished(Run(path), Run(path).read_config().training) is None

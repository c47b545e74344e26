"""A run directory from a stranger: it runs no code, and training in it writes nowhere else."""

import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from flax_transformer import train
from flax_transformer.common.errors import UserError
from flax_transformer.engine.non_finite import load_batch
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.tokenizer import DESCRIPTION_FILE

EXECUTED = []


def explode() -> None:
    EXECUTED.append(1)


class Bomb:
    """What, unpickled, is noticed."""

    def __reduce__(self) -> Any:
        return explode, ()


PICKLED = pickle.dumps(Bomb())


@pytest.fixture
def run(copy_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(copy_run, tmp_path / 'stranger'))


@pytest.fixture(autouse=True)
def nothing_is_executed() -> Any:
    pickle.loads(PICKLED)
    assert EXECUTED  # the bomb goes off where it is unpickled
    EXECUTED.clear()
    yield
    assert not EXECUTED


def test_no_array_is_unpickled() -> None:
    """ruff sees pickle itself, but has no rule for the files of NumPy."""
    assert not [file for file in (ROOT / 'flax_transformer').rglob('*.py') if 'allow_pickle=True' in file.read_text()]


def open_with_a_pickle_in_each_place(run: Path) -> None:
    """Prints how many of the files that translation reads were refused as pickles, and whether one was run."""
    step = Path('checkpoints', max(folder.name for folder in (run / 'checkpoints').iterdir()))
    files = [file for file in (run / step).rglob('*') if file.is_file() and 'training' not in file.parts]
    files += [run / 'config.json', *(run / 'tokenizer').iterdir()]
    refused = 0
    for file in files:
        before = file.read_bytes()
        file.write_bytes(PICKLED)
        try:
            load_run(run)
        except Exception:
            refused += 1
        file.write_bytes(before)
    load_run(run)
    print(json.dumps({'files': len(files), 'refused': refused, 'executed': len(EXECUTED)}))


@pytest.mark.slow
def test_a_pickle_in_the_place_of_any_file_is_not_run(run: Path) -> None:
    """Manifests removed, so that nothing is stopped by a checksum; in a process of its own: Orbax leaves tasks."""
    for manifest in run.rglob('manifest.json'):
        manifest.unlink()
    code = (
        f'import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n'
        'from pathlib import Path; import test_strangers\n'
        f'test_strangers.open_with_a_pickle_in_each_place(Path({str(run)!r}))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result['executed'] == 0
    assert result['files'] > 12
    assert result['refused'] > 5  # they were read


def test_a_pickle_in_a_kept_batch_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / 'batch.npz', source=np.array([Bomb()], object))
    with pytest.raises(ValueError, match='allow_pickle'):
        load_batch(tmp_path / 'batch.npz')


@pytest.mark.parametrize(
    'values',
    [
        {'model': {'activation': '__import__("os").system("touch executed")'}},
        {'__class__': 'os.system', 'args': ['touch executed']},
        {'!!python/object/apply:os.system': ['touch executed']},
        {'model': {'__init__': 1}},
        {'training': {'steps': '$(touch executed)'}},
    ],
)
def test_a_config_is_only_data(run: Path, values: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (run / 'config.json').write_text(json.dumps({'schema_version': 2, 'task': 'translation', **values}))
    with pytest.raises(UserError, match='config'):
        Run(run).read_config()
    assert not (tmp_path / 'executed').exists()


@pytest.mark.parametrize('kind', ['../../evil', 'os.system', '/etc/passwd', ['x'], None])
def test_a_tokenizer_of_another_kind_is_refused_by_name(run: Path, kind: Any) -> None:
    (run / 'tokenizer' / DESCRIPTION_FILE).write_text(json.dumps({'kind': kind}))
    with pytest.raises(UserError, match=r'tokenizer\.json: kind is '):
        Run(run).read_tokenizer()


@pytest.mark.parametrize(
    'name',
    [
        'metrics.jsonl',
        'config.partial',
        'environment.json',
        'tensorboard',
        'checkpoints',
        'checkpoints/9999',
        'data_cache',
    ],
)
def test_training_does_not_follow_a_link_out_of_the_run(run: Path, name: str, tmp_path: Path) -> None:
    """Each of these would be appended to, replaced or removed."""
    precious = tmp_path / 'precious'
    precious.mkdir()
    (precious / 'thesis.tex').write_text('words')
    place = run / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(precious if '.' not in name else precious / 'thesis.tex')
    config = Run(run).read_config()
    config = replace(config, training=replace(config.training, steps=config.training.steps + 1))
    with pytest.raises(UserError, match='is a link to '):
        train(config, run)
    assert {file.name: file.read_text() for file in precious.iterdir()} == {'thesis.tex': 'words'}


def test_a_link_within_the_run_and_a_link_to_it_are_taken(run: Path, tmp_path: Path) -> None:
    (run / 'tensorboard').rename(run / 'curves')
    (run / 'tensorboard').symlink_to('curves')
    (tmp_path / 'here').symlink_to(run)
    Run(tmp_path / 'here').check(Run(run).read_config())

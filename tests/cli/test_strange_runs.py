"""A run folder that a stranger has made, or a disk has damaged: a sentence and an exit code, never a traceback."""

import contextlib
import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run

NESTED, LIST, BYTES = b'[' * 100_000, b'[1, 2]', b'{"\xff\xfe": 1}'
# Each file with what reads it.
READERS: dict[str, Callable[[Run], Any]] = {
    'config.json': Run.read_config,
    'tokenizer/tokenizer.json': Run.read_tokenizer,
    'tokenizer/sentencepiece.model': Run.read_tokenizer,
    'tokenizer.sha256': Run.read_tokenizer,
    'data_files.json': Run.read_data_files,
    'environment.json': lambda run: run.note_environment('cpu'),
    'metrics.jsonl': lambda run: read_metrics(run.path),
    'checkpoints/[0-9]*/manifest.json': lambda run: load_run(run.path),
    'checkpoints/[0-9]*/_CHECKPOINT_METADATA': lambda run: load_run(run.path),
    'checkpoints/[0-9]*/metrics/metrics': lambda run: load_run(run.path),
    'checkpoints/[0-9]*/params/_METADATA': lambda run: load_run(run.path),
    'checkpoints/[0-9]*/params/manifest.ocdbt': lambda run: load_run(run.path),
}


@pytest.fixture
def run(copy_run: Path, tmp_path: Path) -> Run:
    return Run(shutil.copytree(copy_run, tmp_path / 'run'))


def damage_files(run: Run, name: str, damage: bytes) -> None:
    files = list(run.path.glob(name))
    assert files
    for file in files:
        file.write_bytes(damage)


@pytest.mark.parametrize('name', READERS)
def test_a_damaged_file_of_a_run_is_no_traceback(name: str, run: Run) -> None:
    for damage in (NESTED, LIST):
        damage_files(run, name, damage)
        with contextlib.suppress(UserError):
            READERS[name](run)


def test_a_damaged_checkpoint_without_checksums_is_refused(run: Run) -> None:
    for manifest in run.path.glob('checkpoints/*/manifest.json'):
        manifest.unlink()
    for damage in (NESTED, LIST, b''):
        damage_files(run, 'checkpoints/*/params/_METADATA', damage)
        with pytest.raises(UserError, match=r'checkpoint \d+ in .* is damaged'):
            load_run(run.path)


@pytest.mark.slow
@pytest.mark.parametrize(
    'damage',
    [NESTED, b'{"a":' * 100_000, LIST, BYTES, b'', b'null', b'5', b'{"schema_version": 1e999, "step": NaN, "kind": 1}'],
    ids=['nested', 'objects', 'list', 'bytes', 'empty', 'null', 'number', 'infinite'],
)
@pytest.mark.parametrize('name', READERS)
def test_a_run_with_a_damaged_file_translates_or_says_why(
    name: str, damage: bytes, run: Run, monkeypatch, capsys
) -> None:
    damage_files(run, name, damage)
    for command in ('show', 'translate', 'curves'):
        monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(b'a b\n')))
        assert main([command, str(run.path)]) in (0, 2), command
        assert 'Traceback' not in capsys.readouterr().err

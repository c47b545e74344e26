"""A run folder that a stranger has made, or a disk has damaged: a sentence and an exit code, never a traceback."""

import contextlib
import shutil
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.loading import load_run

NESTED, LIST, BYTES = b'[' * 100_000, b'[1, 2]', b'{"\xff\xfe": 1}'
FILES = (
    'config.json',
    'tokenizer/tokenizer.json',
    'tokenizer/sentencepiece.model',
    'data_files.json',
    'environment.json',
    'metrics.jsonl',
    'checkpoints/[0-9]*/manifest.json',
    'checkpoints/[0-9]*/_CHECKPOINT_METADATA',
    'checkpoints/[0-9]*/metrics/metrics',
    'checkpoints/[0-9]*/params/_METADATA',
    'checkpoints/[0-9]*/params/manifest.ocdbt',
)


def try_damage(name: str, damage: bytes, commands: list[str], copy_run: Path, tmp_path: Path, capsys) -> None:
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run)
    files = list(run.glob(name))
    assert files
    for file in files:
        file.write_bytes(damage)
    for command in commands:
        assert main([command, str(run), *(['a b'] if command == 'translate' else [])]) in (0, 1, 2), command
        assert 'Traceback' not in capsys.readouterr().err


@pytest.mark.parametrize('damage', [NESTED, LIST], ids=['nested', 'list'])
@pytest.mark.parametrize('name', FILES)
def test_a_damaged_file_of_a_run_is_no_traceback(name: str, damage: bytes, copy_run: Path, tmp_path, capsys) -> None:
    try_damage(name, damage, ['show'], copy_run, tmp_path, capsys)
    with contextlib.suppress(UserError):
        load_run(tmp_path / 'run')


@pytest.mark.slow
@pytest.mark.parametrize(
    'damage',
    [NESTED, b'{"a":' * 100_000, LIST, BYTES, b'', b'null', b'5', b'{"schema_version": 1e999, "step": NaN, "kind": 1}'],
    ids=['nested', 'objects', 'list', 'bytes', 'empty', 'null', 'number', 'infinite'],
)
@pytest.mark.parametrize('name', FILES)
def test_a_run_with_a_damaged_file_translates_or_says_why(name, damage, copy_run: Path, tmp_path, capsys) -> None:
    try_damage(name, damage, ['translate', 'curves'], copy_run, tmp_path, capsys)

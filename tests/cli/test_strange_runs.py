"""A checkpoint that a stranger has made, or a disk has damaged, is refused in a sentence."""

import shutil
from pathlib import Path

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.loading import load_run


def test_a_damaged_checkpoint_without_checksums_is_refused(copy_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(copy_run, tmp_path / 'run'))
    for manifest in run.glob('checkpoints/*/manifest.json'):
        manifest.unlink()
    for damage in (b'[' * 100_000, b'[1, 2]', b''):
        files = list(run.glob('checkpoints/*/params/_METADATA'))
        assert files
        for file in files:
            file.write_bytes(damage)
        with pytest.raises(UserError, match=r'checkpoint \d+ in .* is damaged'):
            load_run(run)

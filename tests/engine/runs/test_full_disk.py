"""A disk that is full: nothing is torn, nothing hangs, and training stops or goes on as the config says."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orbax.checkpoint as ocp
import pytest
from conftest import copy_config
from loop_doubles import TRAIN
from toy_runs import train_circle
from toy_task import CircleConfig

from flax_transformer import train
from flax_transformer.cli.process import drop_late_errors
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.monitor.reporter import Reporter, read_metrics
from flax_transformer.engine.monitor.trackers import AppendFile
from flax_transformer.engine.runs.checkpoints import Room, is_full_disk, no_space_left
from flax_transformer.engine.runs.reading import CheckpointReader


class Disk:
    """os.write where there is room for so many more bytes; part of a piece goes there, as on a real disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, write, truncate = room, os.write, os.ftruncate

        def limited(opened: int, data: bytes) -> int:
            if opened <= 2:
                return write(opened, data)
            if not self.room:
                raise OSError(errno.ENOSPC, 'No space left on device')
            written = write(opened, data[: self.room])
            self.room -= written
            return written

        def truncating(opened: int, size: int) -> None:
            self.room += os.fstat(opened).st_size - size
            truncate(opened, size)

        monkeypatch.setattr(os, 'write', limited)
        monkeypatch.setattr(os, 'ftruncate', truncating)


def test_pieces_are_written_whole_and_in_order_once_there_is_room(tmp_path: Path, monkeypatch) -> None:
    said: list[str] = []
    disk = Disk(monkeypatch, room=10)
    file = AppendFile(tmp_path / 'file', said.append)
    for piece in (b'one\n', b'two\n', b'three\n', b'four\n'):
        file.write(piece)
    assert (tmp_path / 'file').read_bytes() == b'one\ntwo\n'
    assert len(said) == 1
    assert 'no space left' in said[0]
    disk.room = 100
    file.write(b'five\n')
    assert (tmp_path / 'file').read_bytes() == b'one\ntwo\nthree\nfour\nfive\n'
    disk.room = 2
    file.write(b'six\n')
    file.close()
    assert (tmp_path / 'file').read_bytes().endswith(b'five\n')
    assert said[-1].endswith('its last 4 bytes are lost')


def test_reports_neither_raise_nor_hang_and_come_later(tmp_path: Path, monkeypatch, capsys) -> None:
    """More records than tensorboardX's queue would hold, which nobody would empty."""
    disk = Disk(monkeypatch, room=1000)
    with Reporter(tmp_path, steps=100, first_step=0) as reporter:
        for step in range(1, 51):
            reporter.train(step, TRAIN)
        assert 0 < len(read_metrics(tmp_path)) < 50
        disk.room = 10**6
        reporter.train(51, TRAIN)
    assert [record['step'] for record in read_metrics(tmp_path)] == list(range(1, 52))
    assert 1 <= capsys.readouterr().err.count('no space left for') <= 4


def config_of(**training: Any) -> CircleConfig:
    settings = {'steps': 4, 'log_every': 1, 'checkpoint_every': 1, 'keep_last': 9} | training
    return CircleConfig(training=LoopConfig(**settings))


def steps_in(run: Path) -> set[int]:
    return {int(folder.name) for folder in (run / 'checkpoints').iterdir() if folder.name.isdigit()}


def full_at(monkeypatch: pytest.MonkeyPatch, at_once: int = 0, behind: int = 0) -> None:
    """The save of one step fails where it is called, that of another in the background: the next wait learns of it."""
    save, wait = ocp.CheckpointManager.save, ocp.CheckpointManager.wait_until_finished
    failed: list[int] = []

    def saving(self: Any, step: int, **rest: Any) -> Any:
        if step == at_once:
            raise ValueError('RESOURCE_EXHAUSTED: Error writing local file')
        if step == behind:
            failed.append(step)
            return True
        return save(self, step, **rest)

    def waiting(self: Any) -> None:
        if failed:
            failed.clear()
            raise ValueError('RESOURCE_EXHAUSTED: Error writing local file')
        wait(self)

    monkeypatch.setattr(ocp.CheckpointManager, 'save', saving)
    monkeypatch.setattr(ocp.CheckpointManager, 'wait_until_finished', waiting)


def test_training_goes_on_and_tries_again_where_the_config_says_so(tmp_path, monkeypatch, capsys) -> None:
    full_at(monkeypatch, at_once=1, behind=2)
    train_circle(tmp_path / 'run', config_of(on_full_disk='go_on'))
    assert steps_in(tmp_path / 'run') == {3, 4}
    errors = capsys.readouterr().err
    for step in (1, 2):
        assert f'no space left for the checkpoint of step {step}: it needs about ' in errors
    assert errors.count('Training goes on (training.on_full_disk) and tries again at the next save') == 2


@pytest.mark.parametrize('how', ['at_once', 'behind'])
@pytest.mark.parametrize(('on_full_disk', 'step'), [('stop', 2), ('go_on', 4)])
def test_it_stops_otherwise_and_where_the_last_save_fails(
    on_full_disk: str, step: int, how: str, tmp_path, monkeypatch
) -> None:
    full_at(monkeypatch, **{how: step})
    with pytest.raises(OSError, match=rf'no space left for the checkpoint of step {step}.*make room, and the same'):
        train_circle(tmp_path / 'run', config_of(on_full_disk=on_full_disk))
    assert steps_in(tmp_path / 'run') == set(range(1, step))


@pytest.mark.parametrize(
    ('cause', 'blocks', 'inodes', 'expected'),
    [
        ('No space left on device', 7, 99, '8.2 kB in 3 files and folders of whole blocks (4,096 bytes), and 28.7 kB'),
        ('No space left on device', 999, 2, '3 files and folders, and the file system has room for 2 (inodes)'),
        ('No space left on device', 7, None, '8.2 kB in 3 files'),  # btrfs counts no inodes
        ('Disk quota exceeded', 999, 99, '8.2 kB in 3 files and folders, and the disk quota is exceeded'),
    ],
)
def test_the_message_says_what_ran_out(
    cause: str, blocks: int, inodes: int | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {'f_frsize': 4096, 'f_bavail': blocks, 'f_bfree': 9999, 'f_files': inodes or 0, 'f_favail': inodes or 0}
    monkeypatch.setattr(os, 'statvfs', lambda _: SimpleNamespace(**fields))
    assert is_full_disk(ValueError(f'Failed to write: {cause}'))
    message = str(no_space_left(4, Room(8192, 3), tmp_path, OSError(f'Failed to write: {cause}')))
    assert f'for the checkpoint of step 4: it needs about {expected}' in message


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of that size; the test is skipped where one cannot be mounted."""
    folder.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', str(folder)]
    if shutil.which('mount') is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('no small file system can be mounted here')
    try:
        yield
    finally:
        subprocess.run(['umount', '-l', str(folder)], check=True)


@pytest.mark.slow
def test_on_a_disk_that_is_really_full(copy_folder: Path, tmp_path: Path, capfd) -> None:
    """Room for the first checkpoints; then a file takes the rest, and is removed while training goes on."""
    with small_disk(tmp_path / 'disk', '4m'):
        filler = tmp_path / 'disk' / 'filler'

        def fill_and_free(self: Reporter, step: int) -> None:
            if step == 30:
                with contextlib.suppress(OSError), filler.open('wb', buffering=0) as opened:
                    while True:
                        opened.write(b'x' * 4096)
            if step == 70:
                filler.unlink()

        settings = {'steps': 90, 'log_every': 1, 'checkpoint_every': 10, 'keep_last': 2, 'on_full_disk': 'go_on'}
        config = copy_config(copy_folder, **settings)
        with pytest.MonkeyPatch.context() as patch:
            for hook in ('excepthook', 'unraisablehook'):
                patch.setattr(sys, hook, getattr(sys, hook))
            drop_late_errors()  # the command does so
            patch.setattr(Reporter, 'advance', fill_and_free)
            run = train(replace(config, data=replace(config.data, validation='')), tmp_path / 'disk' / 'run')
        errors = capfd.readouterr().err
        assert 'no space left for the checkpoint of step' in errors
        assert 'Traceback' not in errors
        assert CheckpointReader(run.checkpoints).latest() == 90
        assert [record['step'] for record in read_metrics(run.path)] == list(range(1, 91))

"""One process at a time in a run directory."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import copy_config

from flax_transformer import train
from flax_transformer.common import files
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import LOCK_FILE, in_use

HOLD = (
    'import sys, time; from pathlib import Path; from flax_transformer.common.files import in_use\n'
    'with in_use(Path(sys.argv[1]), say=print): print("held", flush=True); time.sleep(60)\n'
)


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen:
    """A process that is at work in tmp_path/run."""
    process = subprocess.Popen([sys.executable, '-c', HOLD, str(tmp_path / 'run')], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == 'held\n'
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_run_that_another_process_works_in_is_refused_by_its_number(
    holder: subprocess.Popen, tmp_path: Path, copy_folder: Path
) -> None:
    with pytest.raises(UserError, match=f'process {holder.pid} .*--workdir'):
        train(copy_config(copy_folder, steps=1), tmp_path / 'run')
    assert [file.name for file in (tmp_path / 'run').iterdir()] == [LOCK_FILE]


def test_a_killed_process_holds_nothing(holder: subprocess.Popen, tmp_path: Path) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with in_use(tmp_path / 'run', say=print):
        assert f'process {os.getpid()} ' in (tmp_path / 'run' / LOCK_FILE).read_text()


def test_a_new_folder_into_which_nothing_came_is_removed_and_another_kept(tmp_path: Path) -> None:
    with in_use(tmp_path / 'empty', say=print):
        assert (tmp_path / 'empty').is_dir()
    assert not (tmp_path / 'empty').exists()
    with in_use(tmp_path / 'filled', say=print):
        (tmp_path / 'filled' / 'config.json').touch()
    assert {file.name for file in (tmp_path / 'filled').iterdir()} == {'config.json', LOCK_FILE}


def test_two_in_one_process_keep_each_other_out(tmp_path: Path) -> None:
    """As two cells of a notebook, in two threads."""
    with in_use(tmp_path / 'run', say=print), pytest.raises(UserError, match=f'process {os.getpid()}'):
        in_use(tmp_path / 'run', say=print).__enter__()


def test_a_lock_on_a_file_that_was_removed_keeps_nobody_out_and_is_not_taken(tmp_path: Path, monkeypatch) -> None:
    """Between opening and locking, the process before removes its file: the next one is locked."""
    file, lock, calls = tmp_path / 'run' / LOCK_FILE, fcntl.flock, []

    def remove_first(opened: int, how: int) -> None:
        calls.append(opened)
        if len(calls) == 1:
            file.unlink()
        lock(opened, how)

    monkeypatch.setattr(fcntl, 'flock', remove_first)
    with in_use(tmp_path / 'run', say=print):
        assert len(calls) == 2
        assert file.exists()


def unsupported(*_: object) -> None:
    raise OSError(errno.ENOLCK, 'No locks available')


@pytest.mark.parametrize(
    ('owner', 'name', 'value', 'why'),
    [(fcntl, 'flock', unsupported, 'No locks available'), (files, 'fcntl', None, 'this system has no flock')],
    ids=['file system', 'as Windows'],
)
def test_where_there_are_no_locks_it_is_said_and_goes_on(owner, name, value, why, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(owner, name, value)
    said = []
    with in_use(tmp_path / 'run', say=said.append):
        (tmp_path / 'run' / 'config.json').touch()
    assert why in said[0]


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / 'precious').write_text('words')
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / LOCK_FILE).symlink_to(tmp_path / 'precious')
    with pytest.raises(OSError, match='symbolic link'), in_use(tmp_path / 'run', say=print):
        pass
    assert (tmp_path / 'precious').read_text() == 'words'

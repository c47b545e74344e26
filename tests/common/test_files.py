"""Files are written whole or not at all; only regular files are read."""

import os
import socket
import stat
from pathlib import Path

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import (
    open_regular,
    own_partial,
    partials_of,
    read_limited,
    sha256_of,
    write_whole,
    written_whole,
)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / 'config.json'
    write_whole(file, 'old')
    with pytest.raises(TypeError), written_whole(file) as opened:
        opened.writelines([b'ne', 'w'])
    assert file.read_text() == 'old'
    assert list(tmp_path.iterdir()) == [file]
    write_whole(file, 'ümlaut')
    assert file.read_bytes() == 'ümlaut'.encode()
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize('kind', ['link', 'broken link', 'fifo'])
def test_writing_follows_no_link_that_a_stranger_left(kind: str, tmp_path: Path) -> None:
    folder, victim, partial = tmp_path / 'run', tmp_path / 'victim', tmp_path / 'run' / 'seal.partial'
    folder.mkdir()
    if kind == 'fifo':
        os.mkfifo(partial)
        os.open(partial, os.O_RDONLY | os.O_NONBLOCK)  # or the test would hang where it fails
    else:
        partial.symlink_to(victim)
    if kind == 'link':
        victim.write_text('precious')
    write_whole(folder / 'seal', 'new')
    assert stat.S_ISREG(os.lstat(folder / 'seal').st_mode)
    assert (folder / 'seal').read_text() == 'new'
    assert [victim.read_text()] == ['precious'] if kind == 'link' else not victim.exists()
    assert list(folder.iterdir()) == [folder / 'seal']


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """Opening a FIFO that nobody writes to would wait for ever, and /dev/zero never ends."""
    os.mkfifo(tmp_path / 'fifo')
    (tmp_path / 'zero').symlink_to('/dev/zero')
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / 'socket'))
    for name, kind in (('fifo', 'FIFO'), ('zero', 'device'), ('socket', 'socket'), ('.', 'folder')):
        with pytest.raises(UserError, match=f'is a {kind}, expected a regular file'):
            open_regular(tmp_path / name)
        with pytest.raises(UserError, match=f'is a {kind}, expected a regular file'):
            sha256_of(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / 'absent')


def test_a_file_of_no_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / 'sparse').touch()
    os.truncate(tmp_path / 'sparse', 1 << 40)
    with pytest.raises(UserError, match='larger than 100 bytes'):
        read_limited(tmp_path / 'sparse', 100)
    (tmp_path / 'link').symlink_to('abc')
    (tmp_path / 'abc').write_bytes(b'abc')
    assert read_limited(tmp_path / 'link', 3) == b'abc'


def test_partials_of_a_file_are_hidden_distinct_and_found_again(tmp_path: Path) -> None:
    file = tmp_path / 'out[1].gz'
    partials = {own_partial(file), own_partial(file)}
    for partial in (*partials, own_partial(tmp_path / 'out1.gz')):
        partial.touch()
    assert set(partials_of(file)) == partials
    assert not list(tmp_path.glob('out*'))

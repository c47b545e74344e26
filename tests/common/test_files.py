"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from flax_transformer.common.files import sha256_of, write_whole, written_whole


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


def test_a_checksum_is_that_of_the_bytes(tmp_path: Path) -> None:
    write_whole(tmp_path / 'abc', b'abc')
    assert sha256_of(tmp_path / 'abc') == 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'

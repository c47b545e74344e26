"""Programs are kept in the user's cache folder, unless the user says otherwise."""

from functools import partial
from pathlib import Path

import jax
import pytest

from flax_transformer.common.compilation_cache import (
    CHECKSUMS_FILE,
    cache_folder,
    remove_damaged,
    use_compilation_cache,
)

MODULE = 'flax_transformer.common.compilation_cache'
DIR, TIME = 'jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs'


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """JAX's settings as they were, afterwards; the cache folder below tmp_path."""
    before = {name: getattr(jax.config, name) for name in (DIR, TIME)}
    jax.config.update(DIR, None)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_users_cache_folder_is_the_default(tmp_path: Path) -> None:
    use_compilation_cache()
    assert Path(jax.config.jax_compilation_cache_dir) == cache_folder()
    assert cache_folder().is_dir()
    assert tmp_path / 'flax_transformer' in cache_folder().parents


def test_without_xdg_it_lies_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('XDG_CACHE_HOME')
    assert Path.home() / '.cache' in cache_folder().parents


def test_what_the_user_set_stays(tmp_path: Path) -> None:
    jax.config.update(DIR, str(tmp_path / 'mine'))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'mine')
    assert not cache_folder().exists()


def test_a_cache_that_is_off_stays_off() -> None:
    jax.config.update('jax_enable_compilation_cache', False)
    try:
        use_compilation_cache()
    finally:
        jax.config.update('jax_enable_compilation_cache', True)
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_that_cannot_be_made_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None


def test_a_program_that_has_changed_is_removed_before_it_is_run(tmp_path: Path) -> None:
    """JAX runs a program with flipped bits, which may end the process."""
    folder = cache_folder()
    folder.mkdir(parents=True)
    for name in ('one', 'two'):
        (folder / f'{name}-cache').write_bytes(bytes(1000))
    use_compilation_cache()
    jax.config.update(DIR, None)  # as in another process
    (folder / 'one-cache').write_bytes(bytes(500) + b'\x01' + bytes(499))
    (folder / 'new-cache').write_bytes(b'new')
    use_compilation_cache()
    assert sorted(file.name for file in folder.glob('*-cache')) == ['new-cache', 'two-cache']
    (folder / 'one-cache').write_bytes(b'compiled again')
    remove_damaged(folder)
    assert (folder / 'one-cache').exists()


def test_at_its_end_a_process_reads_new_programs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, ends = [], []
    monkeypatch.setattr(MODULE + '.read_limited', lambda file, *most: read.append(file.name) or file.read_bytes())
    monkeypatch.setattr(MODULE + '.atexit.register', lambda *call, **named: ends.append(partial(*call, **named)))
    folder = cache_folder()
    folder.mkdir(parents=True)
    (folder / 'old-cache').write_bytes(b'old')
    use_compilation_cache()
    (folder / 'new-cache').write_bytes(b'new')
    read.clear()
    (end,) = ends
    end()
    assert read == [CHECKSUMS_FILE, 'new-cache']
    (folder / 'new-cache').write_bytes(b'New')
    (folder / 'old-cache').write_bytes(b'Old')
    remove_damaged(folder)
    assert not list(folder.glob('*-cache'))


@pytest.mark.parametrize('damage', [b'', b'[1, 2]', b'[' * 100_000, b'{"x": []}'])
def test_damaged_checksums_cost_no_more_than_the_cache(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / 'one-cache').write_bytes(b'one')
    (tmp_path / CHECKSUMS_FILE).write_bytes(damage)
    (tmp_path / 'folder-cache').mkdir()
    remove_damaged(tmp_path)
    remove_damaged(tmp_path)
    (tmp_path / 'one-cache').write_bytes(b'two')
    remove_damaged(tmp_path)
    assert not (tmp_path / 'one-cache').exists()

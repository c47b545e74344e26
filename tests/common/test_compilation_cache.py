"""Programs are kept in the user's cache folder, unless the user says otherwise."""

import zlib
from pathlib import Path

import jax
import pytest

from flax_transformer.common.compilation_cache import cache_folder, keep, kept_file, read_kept, use_compilation_cache

DIR, TIME = 'jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs'


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """JAX's settings as they were, afterward; the cache folder below tmp_path."""
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


@pytest.mark.parametrize(('name', 'value'), [(DIR, 'mine'), ('jax_enable_compilation_cache', False)])
def test_what_the_user_set_stays(name: str, value: object) -> None:
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        use_compilation_cache()
        assert getattr(jax.config, name) == value
        assert not cache_folder().exists()
    finally:
        jax.config.update(name, before)


def test_a_folder_that_cannot_be_made_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None


def test_what_is_kept_is_found_by_what_it_depends_on(tmp_path: Path) -> None:
    assert kept_file('numbers', 1) is None  # without a cache
    jax.config.update(DIR, str(tmp_path))
    file = kept_file('numbers', 1, 'b')
    keep(file, [1, 2])
    assert file.parent == tmp_path
    assert read_kept(kept_file('numbers', 1, 'b')) == [1, 2]

    others = [kept_file('numbers', 2, 'b'), kept_file('names', 1, 'b')]
    with jax.default_matmul_precision('bfloat16'):
        others.append(kept_file('numbers', 1, 'b'))
    assert all(read_kept(other) is None for other in others)
    assert kept_file('numbers', object()) is None  # its address is another one in each process


def test_a_folder_that_is_gone_is_done_without(tmp_path: Path) -> None:
    jax.config.update(DIR, str(tmp_path / 'gone'))
    keep(kept_file('numbers'), 1)
    assert read_kept(kept_file('numbers')) is None


def test_a_file_that_is_damaged_or_a_value_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    jax.config.update(DIR, str(tmp_path))
    file = kept_file('numbers')
    keep(file, lambda: 1)
    assert read_kept(file) is None
    file.write_bytes(zlib.compress(b'cno_such_module\nname\n.'))
    assert read_kept(file) is None

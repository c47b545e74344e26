"""Programs that are kept on disk once they are compiled."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.tasks.translation.inference.kept import Kept

PARAMS = {'a': np.ones((1, 3), np.float32), 'b': (np.arange(3, dtype=np.float32)[None],)}
IDS = np.arange(6, dtype=np.int32).reshape(2, 3)


CACHE = {'jax_persistent_cache_min_compile_time_secs': 0.0, 'jax_persistent_cache_min_entry_size_bytes': 0}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    settings = CACHE | {'jax_compilation_cache_dir': str(tmp_path)}
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks at its settings once
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def search(params: Any, ids: jax.Array) -> Hypotheses:
    x = params['a'] * ids + params['b'][0]
    return Hypotheses(ids, x, jnp.sin(x), ids, x > 2, x)


def other(params: Any, ids: jax.Array) -> Hypotheses:
    raise AssertionError('traced again')


def test_a_program_is_compiled_once_for_all_processes(folder: Path) -> None:
    expected = jax.jit(search)(PARAMS, IDS)
    assert list(folder.iterdir())  # JAX's cache has it, too, and what JAX has read cannot be written again
    jax.clear_caches()
    jax.tree.map(np.testing.assert_array_equal, Kept(search, 'a search')(PARAMS, IDS), expected)
    jax.tree.map(np.testing.assert_array_equal, Kept(other, 'a search')(PARAMS, IDS), expected)


@pytest.mark.parametrize('settings', ['another search', '', 'a search of <function f at 0x7f00>'])
def test_what_may_be_another_program_is_traced(folder: Path, settings: str) -> None:
    Kept(search, settings and 'a search')(PARAMS, IDS)
    with pytest.raises(AssertionError, match='traced again'):
        Kept(other, settings)(PARAMS, IDS)
    with pytest.raises(AssertionError, match='traced again'):
        Kept(other, 'a search')(PARAMS, IDS[:1])
    with jax.default_matmul_precision('bfloat16'), pytest.raises(AssertionError, match='traced again'):
        Kept(other, 'a search')(PARAMS, IDS)


@pytest.mark.parametrize('size', [0, 100])
def test_a_file_that_was_cut_is_written_again(folder: Path, size: int) -> None:
    Kept(search, 'a search')(PARAMS, IDS)
    (file,) = folder.glob('program-*')
    file.write_bytes(file.read_bytes()[:size])
    expected = Kept(search, 'a search')(PARAMS, IDS)
    jax.tree.map(np.testing.assert_array_equal, Kept(other, 'a search')(PARAMS, IDS), expected)


def test_without_a_folder_to_write_in_programs_run_all_the_same(folder: Path) -> None:
    jax.config.update('jax_compilation_cache_dir', str(folder / 'a file' / 'below'))
    (folder / 'a file').touch()
    assert Kept(search, 'a search')(PARAMS, IDS).tokens.shape == IDS.shape


def test_a_program_is_kept_for_the_device_that_it_runs_on(folder: Path) -> None:
    second = jax.devices()[1]
    for _ in range(2):
        with jax.default_device(second):
            assert Kept(search, 'a search')(PARAMS, IDS).tokens.devices() == {second}
        placed = jax.device_put(PARAMS, second)
        assert Kept(search, 'a search')(placed, IDS).tokens.devices() == {second}
    assert Kept(search, 'a search')(PARAMS, IDS).tokens.devices() == {jax.devices()[0]}

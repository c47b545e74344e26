"""What the CPU multiplies fastest: measured once, where it has the units."""

from pathlib import Path

import jax
import pytest

from flax_transformer.common.compilation_cache import cache_folder
from flax_transformer.ops import fastest_dtype
from flax_transformer.ops.fastest_dtype import fastest_int8, is_bfloat16_faster

measure = fastest_dtype._seconds


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """Times of the next products: the new dtype's, then the usual one's."""
    times = [1.0, 2.0]
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setattr(fastest_dtype, 'processor_features', lambda: 'flags : avx512f avx512_bf16 avx512_vnni')
    monkeypatch.setattr(jax, 'default_backend', lambda: 'cpu')
    monkeypatch.setattr(fastest_dtype, '_seconds', lambda *_, rows: times.pop(0))
    return times


def test_the_ratio_is_measured_once_and_kept(seconds: list[float]) -> None:
    assert is_bfloat16_faster()
    assert is_bfloat16_faster()
    assert not seconds
    [file] = cache_folder().iterdir()
    file.write_text('0.9')  # as another kind of processor might find
    assert not is_bfloat16_faster()
    file.write_text('')  # damaged: measured again
    seconds += [3.0, 2.0]
    assert not is_bfloat16_faster()


def test_where_nothing_can_be_kept_the_process_remembers(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], tmp_path: Path
) -> None:
    monkeypatch.setattr(fastest_dtype, '_unkept', {})
    (tmp_path / 'file').touch()
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
    assert is_bfloat16_faster()
    assert is_bfloat16_faster()
    assert not seconds


def test_without_units_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    monkeypatch.setattr(fastest_dtype, 'processor_features', lambda: 'flags : avx2 avx512f')
    assert not is_bfloat16_faster()
    assert fastest_int8() == 'int8'
    assert seconds


def test_unsigned_bytes_are_taken_where_they_are_faster(seconds: list[float]) -> None:
    assert fastest_int8() == 'uint8'
    [file] = cache_folder().iterdir()
    file.write_text('0.95')
    assert fastest_int8() == 'int8'
    assert not seconds


def test_a_product_that_xla_fails_to_compile_is_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, rows: int) -> float:
        raise jax.errors.JaxRuntimeError('INTERNAL')

    monkeypatch.setattr(fastest_dtype, '_seconds', fails)
    assert fastest_int8() == 'int8'
    [file] = cache_folder().iterdir()
    assert file.read_text() == 'inf\n'
    assert fastest_int8() == 'int8'


def test_a_product_is_measured_while_another_program_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest_dtype, '_seconds', measure)

    def traced() -> jax.Array:
        assert fastest_int8() in {'int8', 'uint8'}
        return jax.numpy.zeros(2)

    assert jax.eval_shape(traced).shape == (2,)

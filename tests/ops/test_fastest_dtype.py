"""What the CPU multiplies fastest: measured once, where it has the units."""

from pathlib import Path

import pytest

from flax_transformer.common.compilation_cache import cache_folder
from flax_transformer.ops import fastest_dtype
from flax_transformer.ops.fastest_dtype import is_bfloat16_faster


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """Of the next products: bfloat16's, then float32's."""
    times = [1.0, 2.0]
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setattr(fastest_dtype, 'processor_features', lambda: 'flags : avx512f avx512_bf16')
    monkeypatch.setattr(fastest_dtype, '_seconds', lambda dtype: times.pop(0))
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


def test_without_units_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    monkeypatch.setattr(fastest_dtype, 'processor_features', lambda: 'flags : avx2 avx512f')
    assert not is_bfloat16_faster()
    assert seconds

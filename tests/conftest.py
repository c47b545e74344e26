"""Settings of every test: CPU, float32 products, no silent broadcasting; and where real corpora lie."""

import os
from pathlib import Path

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_NUM_CPU_DEVICES', '8')

import jax
import pytest

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_default_matmul_precision', 'highest')


def corpus(*path: str) -> Path:
    """A file below $FLAX_TRANSFORMER_DATA; the test is skipped, saying so, where it is absent."""
    root = os.environ.get('FLAX_TRANSFORMER_DATA')
    if not root:
        pytest.skip('FLAX_TRANSFORMER_DATA is not set: no real corpora here')
    file = Path(root, *path)
    if not file.exists():
        pytest.skip(f'{"/".join(path)} is not below FLAX_TRANSFORMER_DATA')
    return file

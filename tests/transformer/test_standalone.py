"""transformer/ works without the rest of the package: copied with ops/ and common/, it imports nothing else of ours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import flax_transformer

PACKAGE = Path(flax_transformer.__file__).parent
PROCESS = """
import importlib, pkgutil, sys
import jax, jax.numpy as jnp
import flax_transformer.transformer
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.flops import forward_flops
from flax_transformer.transformer.model import Transformer, init_params, shift_right

config = TransformerConfig(
    vocab_size=12, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1, max_length=4
)
params = init_params(config, jax.random.key(0))
source, target = jnp.array([[3, 4, 1]]), jnp.array([[5, 1]])
logits = Transformer(config).apply({'params': params}, source, shift_right(target, config.pad_id))
assert logits.shape == (1, 2, 12), logits.shape
assert jnp.isfinite(logits).all()
assert forward_flops(config, 3, 2).total > 0
for module in pkgutil.walk_packages(flax_transformer.transformer.__path__, 'flax_transformer.transformer.'):
    importlib.import_module(module.name)  # every file, not only those of a forward pass
print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('flax_transformer.')}))
print(sys.modules['flax_transformer'].__file__)
"""


def test_the_model_works_copied_out_of_the_package(tmp_path: Path) -> None:
    copy = tmp_path / 'flax_transformer'
    for room in ('transformer', 'ops', 'common'):
        shutil.copytree(PACKAGE / room, copy / room, ignore=shutil.ignore_patterns('__pycache__'))
    (copy / '__init__.py').touch()
    result = subprocess.run(
        [sys.executable, '-c', PROCESS],
        cwd=tmp_path,
        env=os.environ | {'PYTHONPATH': str(tmp_path), 'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '1'},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    rooms, origin = result.stdout.splitlines()
    assert rooms.split() == ['common', 'ops', 'transformer']
    assert Path(origin).is_relative_to(tmp_path)

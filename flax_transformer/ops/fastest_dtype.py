"""Whether this machine's CPU multiplies bfloat16 faster than float32, measured once and kept in the cache folder."""

import contextlib
import time

import jax
import jax.numpy as jnp
import jaxlib

from flax_transformer.common.compilation_cache import cache_folder, processor_features
from flax_transformer.common.files import write_whole

from .product import product

_UNITS = {'amx_bf16', 'avx512_bf16'}  # without one of them, products of bfloat16 are converted
_CALLS = 16  # timed together: the clock lags for threads that run, by more than one call takes
_LIMIT = 0.8  # of float32's time: rounding and the rest of a step take some of what products save


def is_bfloat16_faster() -> bool:
    """True if the CPU has units for bfloat16, and products in it take at most 0.8 of float32's time."""
    if not _UNITS & {*processor_features().split()}:
        return False
    name = f'bfloat16-{_CALLS}-jaxlib-{jaxlib.__version__}'
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return float((cache_folder() / name).read_text(encoding='ascii')) <= _LIMIT

    ratio = _seconds(jnp.bfloat16) / _seconds(jnp.float32)
    with contextlib.suppress(OSError, RuntimeError):  # no folder, or not writable: measured again next time
        file = cache_folder() / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, f'{ratio:.3f}\n')
    return ratio <= _LIMIT


def _seconds(dtype: jnp.dtype) -> float:
    """The CPU time of a product, a millisecond or two; the least of several, as the machine may be busy."""
    with jax.default_device(jax.local_devices(backend='cpu')[0]):
        x = jnp.ones((512, 512), dtype)
        weight = jnp.ones((512, 1024), dtype)
        multiply = jax.jit(product)
        jax.block_until_ready(multiply(x, weight))  # compiles
        measured = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(_CALLS):
                jax.block_until_ready(multiply(x, weight))
            measured.append((time.process_time() - began) / _CALLS)
    return min(measured)

"""What this machine's CPU multiplies fastest, measured once and kept in the cache folder."""

import contextlib
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jaxlib

from flax_transformer.common.compilation_cache import cache_folder, processor_features
from flax_transformer.common.files import write_whole

from .product import product
from .unsigned_product import integer_product, unsigned_product

_BFLOAT16 = {'amx_bf16', 'avx512_bf16'}  # without one of these units, products of bfloat16 are converted
_UNSIGNED = {'avx512_vnni', 'avx_vnni'}
_CALLS = 16  # timed together: the clock lags for threads that run, by more than one call takes


def is_bfloat16_faster() -> bool:
    """True if the CPU has units for bfloat16, and products in it take at most 0.8 of float32's time.

    Rounding and the rest of a step take some of what products save.
    """
    return _is_faster(
        'bfloat16', _BFLOAT16, 0.8, lambda: _seconds(product, jnp.bfloat16) / _seconds(product, jnp.float32)
    )


def fastest_int8() -> str:
    """'uint8' if products of unsigned and signed bytes take at most 0.9 of the time of signed ones, else 'int8'."""

    def ratio() -> float:
        try:
            unsigned = _seconds(lambda x, weight: unsigned_product(x, weight, 0), jnp.uint8, jnp.int8)
        except jax.errors.JaxRuntimeError:  # XLA of JAX 0.10.0 fails to compile it
            return math.inf
        return unsigned / _seconds(lambda x, weight: integer_product(x, weight, 0), jnp.int8)

    is_faster = jax.default_backend() == 'cpu' and _is_faster('unsigned', _UNSIGNED, 0.9, ratio)
    return 'uint8' if is_faster else 'int8'


def _is_faster(name: str, units: set[str], limit: float, measure: Callable[[], float]) -> bool:
    """Whether the CPU has one of these units, and the measured ratio of times is at most the limit."""
    if not units & {*processor_features().split()}:
        return False
    name = f'{name}-{_CALLS}-jaxlib-{jaxlib.__version__}'
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return float((cache_folder() / name).read_text(encoding='ascii')) <= limit

    with jax.ensure_compile_time_eval():  # while another program may be traced
        ratio = measure()
    with contextlib.suppress(OSError, RuntimeError):  # no folder, or not writable: measured again next time
        file = cache_folder() / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, f'{ratio:.3f}\n')
    return ratio <= limit


def _seconds(multiply: Callable[..., jax.Array], dtype: jnp.dtype, weights: jnp.dtype | None = None) -> float:
    """The CPU time of a product, a millisecond or less; the least of several, as the machine may be busy."""
    with jax.default_device(jax.local_devices(backend='cpu')[0]):
        x = jnp.ones((512, 512), dtype)
        weight = jnp.ones((512, 1024), weights or dtype)
        multiply = jax.jit(multiply)
        jax.block_until_ready(multiply(x, weight))  # compiles
        measured = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(_CALLS):
                jax.block_until_ready(multiply(x, weight))
            measured.append((time.process_time() - began) / _CALLS)
    return min(measured)

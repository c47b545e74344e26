"""What this machine's CPU multiplies fastest, measured once and kept in the cache folder."""

import contextlib
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jaxlib

from flax_transformer.common.compilation_cache import cache_folder, processor_features
from flax_transformer.common.files import own_partial, written_whole

from .product import product
from .unsigned_product import integer_product, unsigned_product

_BFLOAT16 = {'amx_bf16', 'avx512_bf16'}  # without one of these units, products of bfloat16 are converted
_UNSIGNED = {'avx512_vnni', 'avx_vnni'}
_LIMIT = 0.8  # a faster dtype's share of the time, as rounding and the rest of a step take some of what products save
_CALLS = 16  # timed together: the clock lags for threads that run, by more than one call takes
_unkept: dict[str, float] = {}  # ratios that this process has measured and cannot write


def is_bfloat16_faster() -> bool:
    """True if the CPU has units for bfloat16, and products in it take at most 0.8 of float32's time."""
    return _is_faster('bfloat16', _BFLOAT16, _ratio_of_bfloat16)


def fastest_int8() -> str:
    """'uint8' if products of unsigned and signed bytes take at most 0.8 of the time of signed ones, else 'int8'."""
    is_faster = jax.default_backend() == 'cpu' and _is_faster('unsigned-64', _UNSIGNED, _ratio_of_unsigned)
    return 'uint8' if is_faster else 'int8'


def _ratio_of_bfloat16() -> float:
    return _seconds(product, jnp.bfloat16, rows=512) / _seconds(product, jnp.float32, rows=512)


def _ratio_of_unsigned() -> float:
    """For as many rows as a batch of a search has: they are multiplied at each token."""
    try:
        unsigned = _seconds(lambda x, weight: unsigned_product(x, weight, 0), jnp.uint8, jnp.int8, rows=64)
    except jax.errors.JaxRuntimeError:  # XLA of JAX 0.10.0 failed to compile it
        return math.inf
    return unsigned / _seconds(lambda x, weight: integer_product(x, weight, 0), jnp.int8, rows=64)


def _is_faster(name: str, units: set[str], measure: Callable[[], float]) -> bool:
    """Whether the CPU has one of these units, and the measured ratio of times is at most the limit."""
    if not units & {*processor_features().split()}:
        return False
    name = f'{name}-{_CALLS}-jaxlib-{jaxlib.__version__}'
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return float((cache_folder() / name).read_text(encoding='ascii')) <= _LIMIT
    if name in _unkept:
        return _unkept[name] <= _LIMIT

    with jax.ensure_compile_time_eval():  # while another program may be traced
        ratio = measure()
    try:
        file = cache_folder() / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(file, own_partial(file)) as opened:
            opened.write(f'{ratio:.3f}\n'.encode())
    except (OSError, RuntimeError):  # no folder, or not writable
        _unkept[name] = ratio
    return ratio <= _LIMIT


def _seconds(
    multiply: Callable[..., jax.Array], dtype: jnp.dtype, weight_dtype: jnp.dtype | None = None, *, rows: int
) -> float:
    """The CPU time of a product, at most a millisecond or two; the least of several, as the machine may be busy."""
    with jax.default_device(jax.local_devices(backend='cpu')[0]):
        x = jnp.ones((rows, 512), dtype)
        weight = jnp.ones((512, 1024), weight_dtype or dtype)
        compiled = jax.jit(multiply)
        jax.block_until_ready(compiled(x, weight))
        measured = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(_CALLS):
                jax.block_until_ready(compiled(x, weight))
            measured.append((time.process_time() - began) / _CALLS)
    return min(measured)

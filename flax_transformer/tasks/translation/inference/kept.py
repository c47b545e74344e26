"""Traced programs, kept in JAX's compilation cache: tracing takes longer than loading what is compiled."""

import contextlib
import functools
import hashlib
import zlib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jax import export

from flax_transformer.common.files import own_partial, written_whole
from flax_transformer.decoding.problem import Hypotheses

Function = Callable[..., Any]

export.register_namedtuple_serialization(Hypotheses, serialized_name='flax_transformer.Hypotheses')


def kept(function: Function, settings: str) -> Function:
    """The function, jitted: traced by the first process that needs it, and read by the others.

    `settings` are all that it depends on but code and the arguments' shapes and dtypes; '': not known.
    """

    def program(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        of_leaves = jax.jit(lambda *leaves: function(*jax.tree.unflatten(tree, leaves)))
        folder = jax.config.jax_compilation_cache_dir
        is_known = settings and ' at 0x' not in settings  # an address says nothing to another process
        if folder and '://' not in folder and jax.config.jax_enable_compilation_cache and is_known:
            with contextlib.suppress(OSError, ValueError, NotImplementedError):  # not writable, or not to be exported
                return _exported(of_leaves, leaves, f'{settings} {tree}', Path(folder)).call(*leaves)
        return function(*arguments)

    return jax.jit(program)


def _exported(function: Function, leaves: Sequence[Any], settings: str, folder: Path) -> export.Exported:
    """Raises OSError, ValueError or NotImplementedError for what cannot be written or exported."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
    options = {name: getattr(jax.config, name, value) for name, value in jax.config.values.items()}
    depends = settings, shapes, _source(), jax.default_backend(), options
    file = folder / f'traced-{hashlib.sha256(repr(depends).encode()).hexdigest()}'
    with contextlib.suppress(FileNotFoundError, zlib.error):  # cut, as by a full disk: written again
        return export.deserialize(bytearray(zlib.decompress(file.read_bytes())))

    exported = export.export(function)(*shapes)
    with written_whole(file, own_partial(file)) as opened:
        opened.write(zlib.compress(exported.serialize(), 1))
    return exported


@functools.cache
def _source() -> str:
    """A digest of the code that traces."""
    versions = ' '.join(metadata.version(name) for name in ('jax', 'jaxlib', 'flax'))
    digest = hashlib.sha256(versions.encode() + Path(__file__).read_bytes())  # raises OSError within an archive
    for file in sorted(Path(__file__).parents[3].rglob('*.py')):
        digest.update(file.read_bytes())
    return digest.hexdigest()

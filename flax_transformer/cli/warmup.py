"""`flax-transformer warmup RUN`."""

import time
from dataclasses import dataclass

from .options import ToTranslate, open_translator, parse, positional

DESCRIPTION = """Compile every shape that `translate` uses and keep the programs in the cache folder, where later starts
find them. Give the same RUN, --decoding and --parallel fields as to `translate`."""


@dataclass(frozen=True)
class WarmupOptions(ToTranslate):
    """A search and devices alone."""


def main(argv: list[str]) -> None:
    options = parse('warmup', WarmupOptions, argv, DESCRIPTION, task='translation', most=None)
    import jax

    translator = open_translator(positional(argv), options)
    started = time.perf_counter()
    count = translator.warm_up()
    folder = jax.config.jax_compilation_cache_dir or 'memory alone: the compilation cache is off'
    print(f'{count} shapes in {time.perf_counter() - started:.1f} s, kept in {folder}')

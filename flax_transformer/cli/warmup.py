"""The command `warmup`."""

import time
from dataclasses import dataclass

from .options import ToTranslate, open_translator, parse, positional


@dataclass(frozen=True)
class WarmupOptions(ToTranslate):
    """Compile every shape that `translate` uses and keep the programs in the cache folder.

    Later starts find them there. Give the same RUN, --decoding and --parallel fields as to `translate`.
    """


def main(argv: list[str]) -> None:
    options = parse('warmup', WarmupOptions, argv, task='translation', most=None)
    import jax

    translator = open_translator(positional(argv), options)
    started = time.perf_counter()
    count = translator.warm_up()
    folder = jax.config.jax_compilation_cache_dir or 'memory alone: the compilation cache is off'
    print(f'{count} shapes in {time.perf_counter() - started:.1f} s, kept in {folder}')

"""`flax-transformer warmup RUN`."""

import time
from dataclasses import asdict, dataclass, field

from flax_transformer.cli.options import parse, positional, read_run_config
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import ParallelConfig

DESCRIPTION = """Compile every shape that `translate` uses and keep the programs in the cache folder, where later starts
find them. Give the same RUN, --decoding and --parallel fields as to `translate`."""


@dataclass(frozen=True)
class WarmupOptions:
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)


def main(argv: list[str]) -> None:
    options = parse(
        'warmup',
        WarmupOptions,
        argv,
        first='RUN',
        description=DESCRIPTION,
        default=lambda run: WarmupOptions(decoding=read_run_config(run, 'translation').decoding),
        most=None,
    )
    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(options.parallel.num_devices)

    import jax

    from flax_transformer.tasks.translation.inference.translator import Translator

    translator = Translator.from_run(*positional(argv), parallel=options.parallel, **asdict(options.decoding))
    started = time.perf_counter()
    count = translator.warm_up()
    folder = jax.config.jax_compilation_cache_dir or 'memory alone: the compilation cache is off'
    print(f'{count} shapes in {time.perf_counter() - started:.1f} s, kept in {folder}')

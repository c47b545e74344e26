"""`flax-transformer export RUN FOLDER [--field value ...]`."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from flax_transformer.decoding.config import DecodingConfig

from .options import OfCheckpoint, parse

DESCRIPTION = """Write a trained model as a FOLDER that JAX alone can run: encoder and search as StableHLO for any batch
and length, the tokenizer, and load.py, which translates with them."""


@dataclass(frozen=True)
class ExportOptions(OfCheckpoint):
    folder: tyro.conf.Positional[Path] = tyro.MISSING  # the folder to make
    weights: Literal['beside', 'inside'] = 'beside'  # beside: in a file of their own; inside: in the program
    dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto'  # the computation's; auto: the model's, else float32
    platforms: tuple[Literal['cpu', 'cuda', 'rocm', 'tpu'], ...] = ('cpu', 'cuda', 'tpu')  # platforms that can run it
    phrases: bool = False  # the program also takes phrases that translations must contain, and is slower
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # the search


def main(argv: list[str]) -> None:
    options = parse('export', ExportOptions, argv, DESCRIPTION, task='translation')
    from flax_transformer.interop.stablehlo import export_run
    from flax_transformer.tasks.translation.inference.translator import Translator

    translator = Translator.from_run(argv[0], step=options.step, **asdict(options.decoding))
    dtype = None if options.dtype == 'auto' else options.dtype
    fields = {name: getattr(options, name) for name in ('weights', 'platforms', 'phrases')}
    export_run(translator, options.folder, dtype=dtype, **fields)
    for file in sorted(options.folder.iterdir()):
        print(f'{file.stat().st_size:>12,}  {file}')
    print('It needs only jax, numpy, sentencepiece and flatbuffers:')
    print(f'  python {options.folder / "load.py"} < lines > translations')

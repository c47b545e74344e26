"""`flax-transformer import-marian FOLDER RUN`."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import tyro

from flax_transformer.cli.options import parse, print_next
from flax_transformer.common.errors import UserError

DESCRIPTION = """Make a run directory, RUN, from a Marian model (OPUS-MT and others) in a local FOLDER as Hugging Face's
save_pretrained writes it: config.json, generation_config.json, model.safetensors or pytorch_model.bin, source.spm,
target.spm, vocab.json, tokenizer_config.json. Nothing is downloaded."""


@dataclass(frozen=True)
class ImportOptions:
    run: tyro.conf.Positional[Path | None] = None  # the run directory to make


def main(argv: list[str]) -> None:
    default = lambda _: ImportOptions()
    options = parse('import-marian', ImportOptions, argv, DESCRIPTION, first='FOLDER', default=default)
    if options.run is None:
        raise UserError(f'import-marian: got {argv[0]} alone, expected FOLDER and RUN')

    from absl import logging

    from flax_transformer.interop.huggingface_runs import import_marian

    logging.set_verbosity(logging.FATAL)
    run = import_marian(argv[0], options.run)
    quoted = shlex.quote(str(run.path))
    print_next(
        f'The run is in {run.path}',
        f'flax-transformer translate {quoted} < lines > translations',
        f'flax-transformer train CONFIG --init-from {quoted} --workdir ANOTHER',
    )

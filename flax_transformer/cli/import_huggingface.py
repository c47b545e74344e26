"""`flax-transformer import-huggingface FOLDER RUN`."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import tyro

from flax_transformer.common.errors import UserError

from .options import note, parse, print_next

DESCRIPTION = """Make a run directory, RUN, from a model in a local FOLDER as Hugging Face's save_pretrained writes it:
Marian (OPUS-MT and others), NLLB-200, M2M-100 or mBART-50. Nothing is downloaded."""


@dataclass(frozen=True)
class ImportOptions:
    run: tyro.conf.Positional[Path | None] = None  # the run directory to make
    source_language: str | None = None  # translated from, if no other is asked for; None: as FOLDER says, or English
    target_language: str | None = None  # translated into; must be given if FOLDER names none


def main(argv: list[str]) -> None:
    default = lambda _: ImportOptions()
    options = parse('import-huggingface', ImportOptions, argv, DESCRIPTION, first='FOLDER', default=default)
    if options.run is None:
        raise UserError(f'import-huggingface: got {argv[0]} alone, expected FOLDER and RUN')

    from absl import logging

    from flax_transformer.interop.huggingface_runs import import_huggingface

    logging.set_verbosity(logging.FATAL)
    languages = {name: getattr(options, name) for name in ('source_language', 'target_language')}
    run = import_huggingface(argv[0], options.run, **languages)
    if run.read_config().data.language_tags:
        note("NLLB-200 is licensed CC BY-NC 4.0, for non-commercial use only; for others see their authors' terms")
    quoted = shlex.quote(str(run.path))
    print_next(
        f'The run is in {run.path}',
        f'flax-transformer translate {quoted} < lines > translations',
        f'flax-transformer train CONFIG --init-from {quoted} --workdir ANOTHER',
    )

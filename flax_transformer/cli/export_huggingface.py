"""`flax-transformer export-huggingface RUN FOLDER [--field value ...]`."""

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from flax_transformer.decoding.config import DecodingConfig

from .options import OfCheckpoint, note, parse, read_config

DESCRIPTION = """Write a trained model as a FOLDER in Hugging Face's format of its family (Marian for most), which
transformers loads. Without FOLDER, only say whether the format can hold the model of a RUN, or of a CONFIG before
training."""


@dataclass(frozen=True)
class ExportOptions(OfCheckpoint):
    folder: tyro.conf.Positional[Path | None] = None  # the folder to make
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # what generation_config.json will say


def main(argv: list[str]) -> None:
    default = lambda name: ExportOptions(decoding=read_config(name, 'translation').decoding)
    options = parse('export-huggingface', ExportOptions, argv, DESCRIPTION, default=default)
    config = read_config(argv[0], 'translation')

    from flax_transformer.huggingface.folder import check_export
    from flax_transformer.huggingface.settings import family_of_model, notes_on

    check_export(config.model, options.decoding)
    if options.folder is None:
        print(f"Hugging Face's {family_of_model(config.model).name} format can hold the model of {argv[0]}")
        notes = notes_on(config.model, options.decoding)
    else:
        from flax_transformer.interop.huggingface_runs import export_huggingface

        notes = export_huggingface(argv[0], options.folder, options.decoding, step=options.step)
        print(f'The model is in {options.folder}. For example:')
        print(f'  ct2-transformers-converter --model {options.folder} --output_dir {options.folder}.ct2')
    for line in notes:
        note(line)

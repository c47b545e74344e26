"""`flax-transformer prepare CONFIG|tfds:NAME/CONFIG:SPLIT`: what must be done once before a training run."""

from dataclasses import dataclass
from pathlib import Path

from flax_transformer.cli.options import note, parse

TFDS_DESCRIPTION = """Download a corpus of TensorFlow Datasets and prepare it as array_record, once.
TensorFlow is not needed."""


@dataclass(frozen=True)
class TfdsOptions:
    root: Path = Path('data')  # the data root: files are written below its folder tensorflow_datasets


def main(argv: list[str]) -> None:
    if argv and argv[0].startswith('tfds:'):
        return _prepare_tfds(argv)


def _prepare_tfds(argv: list[str]) -> None:
    from flax_transformer.config import DataConfig
    from flax_transformer.data.sources import data_root
    from flax_transformer.data.tfds_source import prepare_tfds

    options = parse(
        'prepare',
        TfdsOptions,
        argv,
        first='tfds:NAME/CONFIG:SPLIT',
        description=TFDS_DESCRIPTION,
        default=lambda _: TfdsOptions(data_root(DataConfig())),
    )
    folder = prepare_tfds(argv[0], options.root)
    note(f'{argv[0]} is prepared in {folder}')

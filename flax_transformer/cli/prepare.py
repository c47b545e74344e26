"""`flax-transformer prepare CONFIG|CORPUS|tfds:NAME/CONFIG:SPLIT`: the data of a run before it trains."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.cli import corpora
from flax_transformer.cli.options import note, parse
from flax_transformer.cli.train import TrainOptions, train_options

DESCRIPTION = """Do ahead of time what training does first: train the tokenizer and tokenize the corpora into the cache,
on all cores, without an accelerator. The same command resumes where it was stopped. `prepare multi30k`,
`prepare tatoeba-en-de` and `prepare tfds:NAME/CONFIG:SPLIT`, the latter from TensorFlow Datasets, download a corpus."""

TFDS_DESCRIPTION = """Download a corpus from TensorFlow Datasets and store it as array_record. Needs no TensorFlow."""


@dataclass(frozen=True)
class TfdsOptions:
    root: Path = Path('data')  # the data root; files go into its folder tensorflow_datasets


def main(argv: list[str]) -> None:
    if argv and argv[0].startswith('tfds:'):
        return _prepare_tfds(argv)
    if argv and corpora.is_public(argv[0]):
        return corpora.main(argv)
    options = parse(
        'prepare',
        TrainOptions,
        argv,
        first='CONFIG',
        description=DESCRIPTION,
        default=lambda name: train_options(name, argv, 'translation'),
    )

    from flax_transformer.engine.launch import prepare
    from flax_transformer.tasks.translation.loading import LoadedRun
    from flax_transformer.tasks.translation.recipe import RECIPE
    from flax_transformer.tasks.translation.run import Run

    run, start = Run(options.workdir), None
    run.check(options.config)
    if options.init_from is not None:
        start = LoadedRun(options.config, None, Run(options.init_from).read_tokenizer())
    with run.in_use(note):
        prepare(RECIPE, options.config, run, start=start, processes=os.cpu_count() or 1)
    config, folder = map(shlex.quote, (argv[0], str(run.path)))
    note(f'{run.path} is prepared. Next:\n  flax-transformer train {config} --workdir {folder}')


def _prepare_tfds(argv: list[str]) -> None:
    from flax_transformer.data.named_files import data_root
    from flax_transformer.data.tfds_builders import prepare_tfds

    options = parse(
        'prepare',
        TfdsOptions,
        argv,
        first='tfds:NAME/CONFIG:SPLIT',
        description=TFDS_DESCRIPTION,
        default=lambda _: TfdsOptions(data_root(None)),
    )
    folder = prepare_tfds(argv[0], options.root)
    note(f'{argv[0]} is prepared in {folder}')

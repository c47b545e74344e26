"""The command `prepare`: the data of a run before it trains."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import in_use

from .options import C, note, parse, print_next, progress_bar
from .train import TrainOptions, train_options

TATOEBA = re.compile(r'tatoeba-([a-z]+)-([a-z]+)')


@dataclass(frozen=True)
class PrepareOptions(TrainOptions[C]):
    """Do ahead of time what training does first: train the tokenizer and tokenize the corpora into the cache.

    This takes all cores and no accelerator. The same command resumes where it was stopped. `prepare multi30k`,
    `prepare tatoeba-en-de` and `prepare tfds:NAME/CONFIG:SPLIT`, the latter from TensorFlow Datasets, download a
    corpus.
    """


@dataclass(frozen=True)
class TfdsOptions:
    """Download a corpus from TensorFlow Datasets and store it as array_record. Needs no TensorFlow."""

    root: Path = Path('data')  # the data root; files go into its folder tensorflow_datasets


@dataclass(frozen=True)
class CorpusOptions:
    """Download a corpus, check it, unpack it, and say its license.

    multi30k: 29,000 image captions in English, German, French and Czech. tatoeba-en-de: everyday sentences, likewise
    tatoeba-fr-it and any other two languages. The same command continues where it was stopped. Proxies are those of the
    environment (https_proxy).
    """

    root: Path = Path('data')  # the data root; files go into a folder of it that is named after the corpus
    mirror: str | None = None  # an address that serves the same files instead of the original one


def main(argv: list[str]) -> None:
    if argv and argv[0].startswith('tfds:'):
        return _prepare_tfds(argv)
    is_public = argv[:1] == ['multi30k'] or ''.join(argv[:1]).startswith('tatoeba-')
    if is_public and not Path(argv[0]).exists():
        return _prepare_public(argv)

    def default(name: str) -> PrepareOptions:
        return PrepareOptions(**vars(train_options(name, argv, 'translation')))

    options = parse('prepare', PrepareOptions, argv, first='CONFIG', default=default)

    from flax_transformer.engine.launch import prepare
    from flax_transformer.engine.runs.run_directory import split_reference
    from flax_transformer.tasks.translation.run import LoadedRun, Run
    from flax_transformer.tasks.translation.training import training
    from flax_transformer.tasks.translation.words import TrainingWords

    run = Run(options.workdir)
    run.check(options.config)
    start = None
    if options.init_from is not None:
        path = split_reference(options.init_from)[0]
        start = LoadedRun(options.config, None, Run(path).read_tokenizer(), TrainingWords.read(path))
    with in_use(run.path, say=note):
        prepare(training(), options.config, run, options.config, start=start, processes=os.cpu_count() or 1)
    config, folder = map(shlex.quote, (argv[0], str(run.path)))
    note(f'{run.path} is prepared. Next:\n  flax-transformer train {config} --workdir {folder}')


def _prepare_tfds(argv: list[str]) -> None:
    from flax_transformer.data.named_files import data_root
    from flax_transformer.data.tfds_builders import prepare_tfds

    default = TfdsOptions(data_root(None))
    options = parse('prepare', TfdsOptions, argv, first='tfds:NAME/CONFIG:SPLIT', default=default)
    folder = prepare_tfds(argv[0], options.root)
    note(f'{argv[0]} is prepared in {folder}')


def _prepare_public(argv: list[str]) -> None:
    from flax_transformer.data import public_corpora
    from flax_transformer.data.named_files import data_root

    default = CorpusOptions(data_root(None))
    options = parse('prepare', CorpusOptions, argv, first=argv[0], default=default)
    mirror = options.mirror and options.mirror.rstrip('/')
    if mirror is not None and not mirror.startswith(('http://', 'https://')):
        raise UserError(f'--mirror {options.mirror}: expected an address such as https://host/folder')
    root_option = '' if options.root == default.root else f' --data.root {shlex.quote(str(options.root))}'
    with progress_bar(None, 'B') as bar:
        how = {'mirror': mirror, 'say': note, 'progress': bar.update}
        if argv[0] == 'multi30k':
            folder = public_corpora.prepare_multi30k(options.root, **how)
            license = public_corpora.MULTI30K_LICENSE
            following = [f'flax-transformer train multi30k_en_de{root_option}']
        else:
            languages = TATOEBA.fullmatch(argv[0])
            if not languages or languages[1] == languages[2]:
                raise UserError(f'prepare: got {argv[0]!r}, expected two languages, as in tatoeba-en-de')
            source, target = languages.groups()
            folder = public_corpora.prepare_tatoeba(options.root, source, target, **how)
            license = public_corpora.TATOEBA_LICENSE
            files = [
                f'--{kind}{side} {shlex.quote(f"{folder}/{name}.{language}{suffix}")}'
                for kind, name, suffix in (('', 'train', '.gz'), ('valid-', 'dev', ''), ('test-', 'test', ''))
                for side, language in (('source', source), ('target', target))
            ]
            following = [f'flax-transformer new {argv[0]}.py \\', *(f'  {option} \\' for option in files)]
            following[-1] = following[-1].removesuffix(' \\')
    print_next(f'{argv[0]} is in {folder}. {license}', *following)

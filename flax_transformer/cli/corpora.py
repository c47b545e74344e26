"""`flax-transformer prepare multi30k|tatoeba-en-de`: download a corpus."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.cli.options import note, parse, progress_bar
from flax_transformer.common.errors import UserError

DESCRIPTION = """Download a corpus, check it, unpack it, and say its licence. multi30k: 29,000 image captions in
English, German, French and Czech. tatoeba-en-de: everyday sentences, likewise tatoeba-fr-it and any other two
languages. The same command continues where it was stopped. Proxies are those of the environment (https_proxy)."""
TATOEBA = re.compile(r'tatoeba-([a-z]+)-([a-z]+)')


@dataclass(frozen=True)
class CorpusOptions:
    root: Path = Path('data')  # the data root; files go into a folder of it that is named after the corpus
    mirror: str | None = None  # an address that serves the same files instead of the original one


def is_public(name: str) -> bool:
    """Whether a name means a corpus that can be downloaded here."""
    return (name == 'multi30k' or name.startswith('tatoeba-')) and not Path(name).exists()


def main(argv: list[str]) -> None:
    from flax_transformer.data.named_files import data_root

    options = parse(
        'prepare',
        CorpusOptions,
        argv,
        first=argv[0],
        description=DESCRIPTION,
        default=lambda _: CorpusOptions(data_root(None)),
    )
    mirror = options.mirror and options.mirror.rstrip('/')
    if mirror is not None and not mirror.startswith(('http://', 'https://')):
        raise UserError(f'--mirror {options.mirror}: expected an address such as https://host/folder')
    root_option = '' if options.root == data_root(None) else f' --data.root {shlex.quote(str(options.root))}'
    with progress_bar(None, 'B') as bar:
        how = {'mirror': mirror, 'say': note, 'progress': bar.update}
        if argv[0] == 'multi30k':
            from flax_transformer.data.public_corpora import MULTI30K_LICENCE as LICENCE
            from flax_transformer.data.public_corpora import prepare_multi30k

            folder = prepare_multi30k(options.root, **how)
            following = [f'flax-transformer train multi30k_en_de{root_option}']
        else:
            from flax_transformer.data.public_corpora import TATOEBA_LICENCE as LICENCE
            from flax_transformer.data.public_corpora import prepare_tatoeba

            source, target = _languages(argv[0])
            folder = prepare_tatoeba(options.root, source, target, **how)
            files = [
                f'--{name} {shlex.quote(f"{folder}/{file}")}'
                for name, file in (
                    ('source', f'train.{source}.gz'),
                    ('target', f'train.{target}.gz'),
                    ('valid-source', f'dev.{source}'),
                    ('valid-target', f'dev.{target}'),
                    ('test-source', f'test.{source}'),
                    ('test-target', f'test.{target}'),
                )
            ]
            following = [f'flax-transformer new {argv[0]}.py \\', *(f'  {option} \\' for option in files)]
            following[-1] = following[-1].removesuffix(' \\')
    print(f'{argv[0]} is in {folder}. {LICENCE}.\nNext:')
    for line in following:
        print(f'  {line}')


def _languages(name: str) -> tuple[str, str]:
    found = TATOEBA.fullmatch(name)
    if not found or found[1] == found[2]:
        raise UserError(f'prepare: got {name!r}, expected two languages, as in tatoeba-en-de')
    return found[1], found[2]

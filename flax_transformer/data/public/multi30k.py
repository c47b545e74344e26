"""Multi30k (Elliott et al. 2016, 2017; Barrault et al. 2018): 29,000 image captions in en, de, fr and cs."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import written_whole
from flax_transformer.data.public.download import Progress, Unreachable, download

MULTI30K_COMMIT = 'a3d2e0d26b56f3846f66a952536ffed4e401d05a'
MULTI30K_URL = f'https://raw.githubusercontent.com/multi30k/dataset/{MULTI30K_COMMIT}/data/task1/raw'
MULTI30K_TOKENIZED_URL = f'https://raw.githubusercontent.com/multi30k/dataset/{MULTI30K_COMMIT}/data/task1/tok'
MULTI30K_LICENCE = (
    'Multi30k states no licence; its README speaks of non-commercial research and education. '
    'Please cite Elliott et al. 2016 (W16-3210) and 2017 (W17-4718), Barrault et al. 2018'
)
# SHA-256 of the files in that commit.
MULTI30K_FILES = {
    'train.en.gz': 'd79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f',
    'train.de.gz': '726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6',
    'train.fr.gz': '622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c',
    'train.cs.gz': 'a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077',
    'val.en.gz': '14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28',
    'val.de.gz': 'f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a',
    'val.fr.gz': 'ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9',
    'val.cs.gz': 'b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc',
    'test_2016_flickr.en.gz': '611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9',
    'test_2016_flickr.de.gz': '9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8',
    'test_2016_flickr.fr.gz': '6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90',
    'test_2016_flickr.cs.gz': '200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1',
}
# Lower-cased, normalized and tokenized by Moses' scripts: what most published scores are of. Not compressed.
MULTI30K_TOKENIZED = {
    'train.lc.norm.tok.en': '08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119',
    'train.lc.norm.tok.de': 'cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505',
    'val.lc.norm.tok.en': '46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec',
    'val.lc.norm.tok.de': '97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00',
    'test_2016_flickr.lc.norm.tok.en': '5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2',
    'test_2016_flickr.lc.norm.tok.de': 'c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4',
}


def prepare_multi30k(
    root: Path, *, mirror: str | None = None, say: Callable[[str], None], progress: Progress = lambda count: None
) -> Path:
    """Downloads the corpus into `root`/multi30k and unpacks what is small; files that are there are only checked.

    Its tokenized form goes into the folder tok_lc there. Raises UserError if a file does not come or is another one.
    """
    folder = root / 'multi30k'
    for files, url, below in (
        (MULTI30K_FILES, MULTI30K_URL, folder),
        (MULTI30K_TOKENIZED, MULTI30K_TOKENIZED_URL, folder / 'tok_lc'),
    ):
        for name, sha256 in files.items():
            try:
                found = download(f'{mirror or url}/{name}', below / name, sha256=sha256, progress=progress)
            except Unreachable as error:
                raise UserError(
                    f'{error}. Without a network, copy {", ".join(files)} from github.com/multi30k/dataset, '
                    f'data/task1/{url.rpartition("/")[2]}, into {below} and run the command again'
                ) from None
            say(f'{below / name}: {found.bytes:,} bytes, as expected')
            if name.endswith('.gz') and not name.startswith('train'):
                with gzip.open(below / name) as packed, written_whole((below / name).with_suffix('')) as opened:
                    shutil.copyfileobj(packed, opened)
    return folder

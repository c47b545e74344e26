"""Models of Hugging Face's hub by name, OWNER/NAME[@REVISION]: the files that are read of them, in the hub's cache."""

import hashlib
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of
from flax_transformer.common.installing import imported
from flax_transformer.common.quiet import say, shows_progress
from flax_transformer.engine.runs.run_directory import HUB_NAME

from .settings import read_model, read_object
from .weights import PICKLE, SAFETENSORS, read_tensors, shapes

_SMALL = re.compile(
    r'((generation_|tokenizer_)?config|special_tokens_map|(target_)?vocab)\.json|README.md|.*\.(spm|model)'
)


def fetch(name: str, *, download: bool = False, ask: Callable[[str], bool] = lambda question: False) -> Path:
    """The folder of a model's files in the hub's cache.

    What it lacks, or with `download` what is newer, is taken if `download` or `ask` agrees. Raises UserError for what
    is missing or damaged.
    """
    library = imported('huggingface_hub', 'hub', f'{name} is no folder here; reading it from the hub')
    match = HUB_NAME.fullmatch(name)
    if match is None:
        raise UserError(f'{name}: expected a folder, or OWNER/NAME[@REVISION] of the hub')
    model = {'repo_id': match[1], 'revision': match[2]}
    config = library.try_to_load_from_cache(filename='config.json', **model)
    folder = Path(config or f'{name}/config.json').parent
    lack = 'without --download, what the cache has is used'
    try:
        read_tensors(folder)
        if not download:
            return folder
    except UserError as error:
        lack = f'in the cache, {error}'

    if not shows_progress():
        library.utils.disable_progress_bars()
    try:
        sizes = {file.rfilename: file.size for file in library.model_info(**model, files_metadata=True).siblings}
        files = _needed(sizes)
        megabytes = sum(sizes[file] for file in files) / 1e6
        what = f'{name} is no folder here, but {megabytes:,.1f} MB on {library.constants.ENDPOINT}'
        if not (download or ask(f'{what}. Download it?')):
            raise UserError(f'{what}: give --download (in Python download=True)')
        settings = library.hf_hub_download(filename='config.json', **model)
        size = 4e-6 * sum(map(math.prod, shapes(read_model(read_object(Path(settings)))).values()))
        say(f'{name}: {size:,.1f} MB in float32; reading takes 1.2 times as much memory, and a run as much disk')
        folder = Path(library.snapshot_download(**model, allow_patterns=files))
    except UserError:
        raise
    except Exception as error:  # the library's have no common class
        raise UserError(f'{name}: {error}\n{lack}') from None
    digest_of(folder)
    return folder


def _needed(names: Iterable[str]) -> list[str]:
    """Those of a model's files that are read: one kind of weights, and tokenizer.json only where nothing else is."""
    needed = [name for name in names if _SMALL.fullmatch(name)]
    if not any(name.endswith(('.spm', '.model')) for name in needed):
        needed += [name for name in names if name == 'tokenizer.json']
    for whole in (SAFETENSORS, PICKLE):
        shards = re.compile(whole.replace('.', r'(-\d+-of-\d+)?\.') + r'(\.index\.json)?')
        if weights := [name for name in names if shards.fullmatch(name)]:
            return needed + ([whole] if whole in weights else weights)
    return needed


def digest_of(folder: Path) -> str:
    """A digest of a folder's files. Raises UserError for one that is not what the hub's cache, which names it, says."""
    digests = []
    for file in sorted(folder.iterdir()):
        kept = file.resolve()
        digests.append(sha256_of(kept))
        if len(kept.name) == 64 and digests[-1] != kept.name:  # a small file has Git's name
            raise UserError(f'{file} is damaged: its SHA-256 is {digests[-1]}; remove {kept}, and --download it again')
    return hashlib.sha256(''.join(digests).encode()).hexdigest()

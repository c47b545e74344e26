"""The tensors of a folder's model: safetensors or PyTorch's pickles, whole or in shards, read one at a time.

torch is not needed: `pickles` reads its files, and runs nothing that they name.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, read_limited
from flax_transformer.common.installing import imported
from flax_transformer.common.json_text import parse_json

from .pickles import Tensors, read_pickle

SAFETENSORS, PICKLE = 'model.safetensors', 'pytorch_model.bin'


def read_tensors(folder: Path) -> Tensors:
    """All tensors of the folder's model, in the types in which they are stored, read from the files when asked for.

    Looks for model.safetensors, model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json, in this
    order. Raises UserError if there is none, one is damaged, or a pickle holds more than tensors.
    """
    for name, read in ((SAFETENSORS, _read_safetensors), (PICKLE, read_pickle)):
        if (folder / name).is_file():
            return read(folder / name)
        if (folder / f'{name}.index.json').is_file():
            return _read_shards(folder / f'{name}.index.json', read)
    raise UserError(f'{folder} has no weights; expected {SAFETENSORS} or {PICKLE}, or shards of one and their index')


def write_safetensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    """Writes a file that Hugging Face loads into a PyTorch model."""
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    _safetensors().save_file(contiguous, file, metadata={'format': 'pt'})


def _safetensors() -> Any:
    return imported('safetensors.numpy', 'interop', "a model in Hugging Face's format")


def _read_safetensors(file: Path) -> Tensors:
    module = _safetensors()

    def read(name: str | None) -> Any:
        try:
            with module.safe_open(file, 'numpy') as opened:
                return opened.keys() if name is None else opened.get_tensor(name)
        except Exception as error:  # a damaged file can raise anything
            raise UserError(f'{file} is damaged, or cut short: {error}; copy it again') from None

    return Tensors({name: partial(read, name) for name in read(None)})


def _read_shards(index: Path, read: Callable[[Path], Tensors]) -> Tensors:
    with naming_damage(index, 'expected {"weight_map": {tensor: file}}'):
        homes = dict(parse_json(read_limited(index))['weight_map'])
        names = sorted(set(homes.values()))
    # A name with a folder in it could lead anywhere.
    missing = [str(name) for name in names if Path(str(name)).name != name or not (index.parent / name).is_file()]
    if missing:
        raise UserError(f'{index} names files that are not next to it: {", ".join(missing)}')
    tensors = Tensors({name: reader for file in names for name, reader in read(index.parent / file).readers.items()})
    if absent := sorted(set(homes) - set(tensors)):
        raise UserError(f'{index} names tensors that its files lack: {", ".join(absent)}')
    return tensors

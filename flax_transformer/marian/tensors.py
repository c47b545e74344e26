"""Tensors by name, from the files that Hugging Face writes: safetensors or PyTorch's pickles, whole or in shards.

torch is not needed: `pickles` reads its files, and runs nothing that they name.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import MOST_TEXT, open_regular, read_limited
from flax_transformer.common.installing import install_command
from flax_transformer.common.json_text import parse_json
from flax_transformer.marian.pickles import read_pickle

SAFETENSORS, PICKLE = 'model.safetensors', 'pytorch_model.bin'


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of the folder's model, in the types in which they are stored.

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
    _safetensors().numpy.save_file(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, file, metadata={'format': 'pt'}
    )


def _safetensors() -> Any:
    """The module, imported on use: translating does not need it."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise UserError(f'safetensors is not installed: {install_command("interop")}') from None
    return safetensors


def _read_safetensors(file: Path) -> dict[str, np.ndarray]:
    module = _safetensors()
    try:
        _check_size(file)
        return module.numpy.load_file(file)
    except UserError:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise UserError(f'{file} is damaged, or cut short: {error}; copy it again') from None


def _check_size(file: Path) -> None:
    """Raises ValueError unless the file is as long as its header says, before any of it is mapped into memory."""
    with open_regular(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        length = int.from_bytes(opened.read(8), 'little')
        if length > min(size, MOST_TEXT):
            raise ValueError(f'its header would have {length:,} bytes')
        entries = parse_json(opened.read(length)).items()
    end = max((entry['data_offsets'][1] for name, entry in entries if name != '__metadata__'), default=0)
    if size != 8 + length + end:
        raise ValueError(f'it has {size:,} bytes, and its header speaks of {8 + length + end:,}')


def _read_shards(index: Path, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    try:
        homes = dict(parse_json(read_limited(index))['weight_map'])
        names = sorted(set(homes.values()))
    except (ValueError, TypeError, KeyError):
        raise UserError(f'{index} is damaged: expected {{"weight_map": {{tensor: file}}}}') from None
    # A name with a folder in it could lead anywhere.
    missing = [name for name in names if Path(name).name != name or not (index.parent / name).is_file()]
    if missing:
        raise UserError(f'{index} names files that are not next to it: {", ".join(missing)}')
    tensors = {name: tensor for file in names for name, tensor in read(index.parent / file).items()}
    if absent := sorted(set(homes) - set(tensors)):
        raise UserError(f'{index} names tensors that its files lack: {", ".join(absent)}')
    return tensors

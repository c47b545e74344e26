"""Tensors by name, from the files that Hugging Face writes: safetensors or PyTorch's pickles, whole or in shards.

A pickle can run any code. Our unpickler admits only what a state dict consists of, dictionaries and tensors over plain
storages, and refuses everything else by name. torch is not needed.
"""

import json
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from flax_transformer.common.errors import UserError

SAFETENSORS, PICKLE = 'model.safetensors', 'pytorch_model.bin'
_STORAGES = {
    'DoubleStorage': np.dtype('<f8'),
    'FloatStorage': np.dtype('<f4'),
    'HalfStorage': np.dtype('<f2'),
    'BFloat16Storage': np.dtype(ml_dtypes.bfloat16),
    'LongStorage': np.dtype('<i8'),
    'IntStorage': np.dtype('<i4'),
    'ShortStorage': np.dtype('<i2'),
    'CharStorage': np.dtype('i1'),
    'ByteStorage': np.dtype('u1'),
    'BoolStorage': np.dtype('?'),
}
_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of torch.save before torch 1.6


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of the folder's model, in the types in which they are stored.

    Looks for model.safetensors, model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json, in this
    order. Raises UserError if there is none, one is damaged, or a pickle holds more than tensors.
    """
    for name, read in ((SAFETENSORS, _read_safetensors), (PICKLE, _read_pickle)):
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
        raise UserError("safetensors is not installed; pip install 'flax-transformer[interop]'") from None
    return safetensors


def _read_safetensors(file: Path) -> dict[str, np.ndarray]:
    module = _safetensors()
    try:
        return module.numpy.load_file(file)
    except module.SafetensorError as error:
        raise UserError(f'{file} is damaged, or cut short: {error}; copy it again') from None


def _read_shards(index: Path, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    try:
        homes = dict(json.loads(index.read_text(encoding='utf-8'))['weight_map'])
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


class View(NamedTuple):
    """A tensor as a window on a storage; offset and strides in elements."""

    key: str
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, storage: bytes) -> np.ndarray:
        flat = np.frombuffer(storage, self.dtype)
        last = self.offset + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        if min((self.offset, *self.shape, *self.strides)) < 0 or (math.prod(self.shape) and last >= flat.size):
            raise ValueError('a tensor reaches beyond its storage')
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides).copy()


class _Unpickler(pickle.Unpickler):
    """Admits dictionaries and tensors; a tensor's storage is a name, looked up once everything is read."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ('collections', 'OrderedDict'):
            return OrderedDict
        if (module, name) == ('torch._utils', '_rebuild_tensor_v2'):
            return lambda storage, offset, shape, strides, *_: View(*storage, offset, tuple(shape), tuple(strides))
        if (module, name) == ('torch._utils', '_rebuild_parameter'):
            return lambda tensor, *_: tensor
        if module == 'torch' and name in _STORAGES:
            return _STORAGES[name]
        raise UserError(
            f'the pickle asks for {module}.{name}; expected a state dict, tensors and nothing else. Loading it could '
            'run any code: if you trust it, let Hugging Face save it as safetensors'
        )

    def persistent_load(self, pid: Any) -> tuple[str, np.dtype]:
        kind, dtype, key, *_ = pid
        if kind != 'storage' or not isinstance(dtype, np.dtype):
            raise ValueError(f'got a persistent {kind}, expected a storage')
        return str(key), dtype


def _read_pickle(file: Path) -> dict[str, np.ndarray]:
    """The state dict that torch.save wrote: a zip archive, or before torch 1.6 several pickles in a row."""
    try:
        views, storage = _read_zip(file) if zipfile.is_zipfile(file) else _read_legacy(file)
        if not isinstance(views, dict) or not all(isinstance(view, View) for view in views.values()):
            raise UserError('expected a state dict, name by name a tensor')
        return {str(name): view.of(storage(view.key)) for name, view in views.items()}
    except UserError as error:
        raise UserError(f'{file}: {error}') from None
    except Exception as error:  # a damaged pickle can raise anything
        what = f'{type(error).__name__}: {error}'
        raise UserError(f'{file} is damaged, or not what torch.save writes ({what}); copy it again') from None


def _read_zip(file: Path) -> tuple[Any, Callable[[str], bytes]]:
    archive = zipfile.ZipFile(file)
    (top,) = (name for name in archive.namelist() if name.endswith('data.pkl'))
    root = top.removesuffix('data.pkl')
    if f'{root}byteorder' in archive.namelist() and archive.read(f'{root}byteorder') != b'little':
        raise UserError('was written on a big-endian machine; save it on a little-endian one')
    with archive.open(top) as pickled:
        views = _Unpickler(pickled).load()
    return views, lambda key: archive.read(f'{root}data/{key}')


def _read_legacy(file: Path) -> tuple[Any, Callable[[str], bytes]]:
    with file.open('rb') as stream:
        if _Unpickler(stream).load() != _LEGACY_MAGIC or _Unpickler(stream).load() != _LEGACY_PROTOCOL:
            raise ValueError('no magic number')
        if not _Unpickler(stream).load()['little_endian']:
            raise UserError('was written on a big-endian machine; save it on a little-endian one')
        views = _Unpickler(stream).load()
        sizes = {view.key: view.dtype.itemsize for view in views.values() if isinstance(view, View)}
        storages = {str(key): _read_storage(stream, sizes[str(key)]) for key in _Unpickler(stream).load()}
    return views, storages.__getitem__


def _read_storage(stream: IO[bytes], item_size: int) -> bytes:
    """A storage, which follows its length in elements."""
    wanted = int.from_bytes(stream.read(8), 'little') * item_size
    storage = stream.read(wanted)
    if len(storage) < wanted:
        raise EOFError('a storage is cut short')
    return storage

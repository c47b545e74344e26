"""State dicts from the pickles that torch.save writes; torch is not needed.

Unpickling calls what the file names, so a stranger's file could run any code. Here names stay names: `find_class` gives
stubs, which have no state and return no live object when they are called.
"""

import contextlib
import io
import math
import mmap
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import check_regular

_DTYPES = {'Double': '<f8', 'Float': '<f4', 'Half': '<f2', 'BFloat16': ml_dtypes.bfloat16, 'Long': '<i8', 'Int': '<i4'}
_DTYPES |= {'Short': '<i2', 'Char': 'i1', 'Byte': 'u1', 'Bool': '?'}
_STORAGES = {f'{name}Storage': np.dtype(dtype) for name, dtype in _DTYPES.items()}
_ORDERED_DICT = ('collections', 'OrderedDict')
_TENSOR = ('torch._utils', '_rebuild_tensor_v2')
_PARAMETER = ('torch._utils', '_rebuild_parameter')
_LEGACY_START = [0x1950A86A20F9469CFC6C, 1001]  # a magic number and a version, before torch 1.6
_BIG_ENDIAN = 'was written on a big-endian machine; save it on a little-endian one'
_MOST_SHARED = 8  # times the file's size, for all tensors: tied tables share a storage


class Storage(NamedTuple):
    key: str
    dtype: np.dtype


class View(NamedTuple):
    """A tensor as a window on a storage; offset and strides in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return abs(math.prod(self.shape)) * self.storage.dtype.itemsize

    def of(self, storage: bytes) -> np.ndarray:
        """The tensor, read-only, in the storage's memory."""
        size = self.storage.dtype.itemsize
        strides = [stride * size for stride in self.strides]
        try:
            return np.ndarray(self.shape, self.storage.dtype, storage, self.offset * size, strides)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f'a tensor is no part of its storage ({error})') from None


class Tensors(Mapping[str, np.ndarray]):
    """Tensors by name, each read when it is asked for: no more than one need be in memory."""

    def __init__(self, readers: dict[str, Callable[[], np.ndarray]]) -> None:
        self.readers = readers

    def __getitem__(self, name: str) -> np.ndarray:
        return self.readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __len__(self) -> int:
        return len(self.readers)


def read_pickle(file: Path) -> Tensors:
    """The state dict that torch.save wrote: a zip archive, or before torch 1.6 several pickles in a row."""
    check_regular(file)
    with _explained(file):
        views, storage = _read_zip(file) if zipfile.is_zipfile(file) else _read_legacy(file)
        _check_state_dict(views)
        if sum(view.num_bytes for view in views.values()) > _MOST_SHARED * file.stat().st_size:
            raise ValueError('its tensors are larger than the file')
    newest: dict[str, bytes] = {}  # many tensors may share one storage

    def read(view: View) -> np.ndarray:
        key = view.storage.key
        with _explained(file):
            if key not in newest:
                newest.clear()
                newest[key] = storage(key)
            return view.of(newest[key])

    return Tensors({name: partial(read, view) for name, view in views.items()})


def _check_state_dict(views: Any) -> None:
    if not isinstance(views, dict) or not all(isinstance(view, View) for view in views.values()):
        raise UserError('expected a state dict, a tensor for each name')


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f'{file}: {error}') from None
    except Exception as error:  # a damaged file can raise anything
        what = f'{type(error).__name__}: {error}'
        raise UserError(f'{file} is damaged, or not what torch.save writes ({what}); copy it again') from None


def _read_zip(file: Path) -> tuple[Any, Callable[[str], bytes]]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError('its parts are compressed')
        if sum(entry.file_size for entry in entries) > file.stat().st_size:
            raise ValueError('its parts are larger than the file')
        (top,) = (name for name in archive.namelist() if name.endswith('data.pkl'))
        root = top.removesuffix('data.pkl')
        if f'{root}byteorder' in archive.namelist() and archive.read(f'{root}byteorder') != b'little':
            raise UserError(_BIG_ENDIAN)
        views = load(io.BytesIO(archive.read(top)))

    def storage(key: str) -> bytes:
        with zipfile.ZipFile(file) as archive:
            return archive.read(f'{root}data/{key}')

    return views, storage


def _read_legacy(file: Path) -> tuple[Any, Callable[[str], bytes]]:
    with file.open('rb') as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as stream:
        if stream[:1] != pickle.PROTO or [load(stream), load(stream)] != _LEGACY_START:
            raise ValueError('no magic number')
        if not load(stream)['little_endian']:
            raise UserError(_BIG_ENDIAN)
        views = load(stream)
        _check_state_dict(views)
        sizes = {view.storage.key: view.storage.dtype.itemsize for view in views.values()}
        spans = {key: _skip_storage(stream, sizes[_of_type(str, key)]) for key in load(stream)}

    def storage(key: str) -> bytes:
        begin, size = spans[key]
        with file.open('rb') as opened:
            opened.seek(begin)
            return opened.read(size)

    return views, storage


def _skip_storage(stream: mmap.mmap, item_size: int) -> tuple[int, int]:
    """The place and size in bytes of a storage that follows its length in elements."""
    size = int.from_bytes(stream.read(8), 'little') * item_size
    begin = stream.tell()
    if size > len(stream) - begin:
        raise EOFError('a storage is cut short')
    stream.seek(begin + size)
    return begin, size


def load(stream: BinaryIO) -> Any:
    return _Unpickler(stream, encoding='latin-1').load()


class _Names(dict):
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_of_type(str, key), value)


class _Stub(NamedTuple):
    """A name in a pickle: a storage's type, or a function of a state dict."""

    module: str
    name: str

    def __call__(self, *arguments: Any) -> Any:
        if self == _ORDERED_DICT:
            return _Names()
        if self == _TENSOR:
            storage, offset, shape, strides = arguments[:4]
            return View(_of_type(Storage, storage), offset, _of_type(tuple, shape), _of_type(tuple, strides))
        if self == _PARAMETER:
            return _of_type(View, arguments[0])
        raise ValueError('the pickle calls what is no function of a state dict')


class _Unpickler(pickle._Unpickler):
    """Python's pure-Python unpickler; the C one takes gigabytes for a large memo index."""

    def find_class(self, module: str, name: str) -> _Stub:
        if (module, name) in (_ORDERED_DICT, _TENSOR, _PARAMETER) or (module == 'torch' and name in _STORAGES):
            return _Stub(module, name)
        raise UserError(
            f'the pickle asks for {module[:80]}.{name[:80]}; expected tensors alone, as it could run any code: if you '
            'trust it, let Hugging Face save it as safetensors'
        )

    def persistent_load(self, pid: Any) -> Storage:
        kind, dtype, key = _of_type(tuple, pid)[:3]
        if kind != 'storage' or not isinstance(dtype, _Stub) or dtype.name not in _STORAGES:
            raise ValueError('a persistent id is not that of a storage')
        return Storage(_of_type(str, key), _STORAGES[dtype.name])

    def load_empty_dictionary(self) -> None:
        self.append(_Names())

    def load_build(self) -> None:
        self.stack.pop()  # any object's state; an OrderedDict's is only module versions

    dispatch = pickle._Unpickler.dispatch | {pickle.EMPTY_DICT[0]: load_empty_dictionary, pickle.BUILD[0]: load_build}


def _of_type(wanted: type, value: Any) -> Any:
    """The value. The ValueError for another type does not show it: it may be endless."""
    if type(value) is not wanted:
        raise ValueError(f'got a {type(value).__name__} where a {wanted.__name__} is expected')
    return value

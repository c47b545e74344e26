"""State dicts from the pickles that torch.save writes, read without Python's unpickler.

Unpickling calls what the file names, so a stranger's file can run any code, and even one that may only name data types
can break them for the whole process. Here the opcodes of a state dict, some thirty, are interpreted, and names stay
names: no object of the process is looked up or called. torch is not needed.
"""

import io
import math
import mmap
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import check_regular

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
_ORDERED_DICT = ('collections', 'OrderedDict')
_TENSOR, _PARAMETER = ('torch._utils', '_rebuild_tensor_v2'), ('torch._utils', '_rebuild_parameter')
_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of torch.save before torch 1.6
_MOST_SHARED = 8  # times the size of the file that its tensors may have together: tied tables share a storage
_MARK = object()


class Name(NamedTuple):
    """What a pickle asks for by name: a storage's type, or one of the three functions of a state dict."""

    module: str
    name: str


class Storage(NamedTuple):
    """A tensor's memory, by its key in the file."""

    key: str
    dtype: np.dtype


class View(NamedTuple):
    """A tensor as a window on a storage; offset and strides in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def check(self) -> 'View':
        """This view. Raises ValueError if it is not made of non-negative integers, or repeats elements."""
        numbers = (self.offset, *self.shape, *self.strides)
        if not all(type(number) is int and 0 <= number < 2**48 for number in numbers):
            raise ValueError('the offset, shape and strides of a tensor must be integers of at least 0')
        if len(self.shape) != len(self.strides) or len(self.shape) > 8:
            raise ValueError(f'a tensor has {len(self.shape)} dimensions and {len(self.strides)} strides')
        if any(size > 1 and stride == 0 for size, stride in zip(self.shape, self.strides, strict=True)):
            raise ValueError('a tensor repeats elements of its storage')
        return self

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.storage.dtype.itemsize

    def of(self, storage: bytes) -> np.ndarray:
        """The tensor, read-only, in the storage's memory."""
        flat = np.frombuffer(storage, self.storage.dtype)
        last = self.offset + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        if not math.prod(self.shape):
            return np.zeros(self.shape, flat.dtype)
        if last >= flat.size or math.prod(self.shape) > flat.size:
            raise ValueError('a tensor reaches beyond its storage')
        strides = [stride * flat.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides, writeable=False)


def read_pickle(file: Path) -> dict[str, np.ndarray]:
    """The state dict that torch.save wrote: a zip archive, or before torch 1.6 several pickles in a row.

    Raises UserError if the file is damaged or holds more than tensors. Takes no more memory than the file's size, and
    what the tensors are converted to is bounded by a multiple of it.
    """
    check_regular(file)
    try:
        views, storage = _read_zip(file) if zipfile.is_zipfile(file) else _read_legacy(file)
        if not isinstance(views, dict) or not all(isinstance(view, View) for view in views.values()):
            raise UserError('expected a state dict, name by name a tensor')
        if sum(view.num_bytes for view in views.values()) > _MOST_SHARED * file.stat().st_size:
            raise ValueError('its tensors are larger than the file')
        storages = {key: storage(key) for key in {view.storage.key for view in views.values()}}
        return {str(name): view.of(storages[view.storage.key]) for name, view in views.items()}
    except UserError as error:
        raise UserError(f'{file}: {error}') from None
    except Exception as error:  # a damaged file can raise anything
        what = f'{type(error).__name__}: {error}'
        raise UserError(f'{file} is damaged, or not what torch.save writes ({what}); copy it again') from None


def _read_zip(file: Path) -> tuple[Any, Callable[[str], bytes]]:
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError('its parts are compressed')
    if sum(entry.file_size for entry in entries) > file.stat().st_size:
        raise ValueError('its parts are larger than the file')
    (top,) = (name for name in archive.namelist() if name.endswith('data.pkl'))
    root = top.removesuffix('data.pkl')
    if f'{root}byteorder' in archive.namelist() and archive.read(f'{root}byteorder') != b'little':
        raise UserError('was written on a big-endian machine; save it on a little-endian one')
    return load(io.BytesIO(archive.read(top))), lambda key: archive.read(f'{root}data/{key}')


def _read_legacy(file: Path) -> tuple[Any, Callable[[str], bytes]]:
    with file.open('rb') as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as stream:
        if load(stream) != _LEGACY_MAGIC or load(stream) != _LEGACY_PROTOCOL:
            raise ValueError('no magic number')
        if not load(stream)['little_endian']:
            raise UserError('was written on a big-endian machine; save it on a little-endian one')
        views = load(stream)
        if not isinstance(views, dict):
            raise UserError('expected a state dict, name by name a tensor')
        sizes = {view.storage.key: view.storage.dtype.itemsize for view in views.values() if isinstance(view, View)}
        storages = {key: _read_storage(stream, sizes[key]) for key in load(stream)}
    return views, storages.__getitem__


def _read_storage(stream: mmap.mmap, item_size: int) -> bytes:
    """A storage, which follows its length in elements."""
    wanted = int.from_bytes(stream.read(8), 'little') * item_size
    if wanted > len(stream) - stream.tell():
        raise EOFError('a storage is cut short')
    return stream.read(wanted)


def load(stream: BinaryIO) -> Any:
    """The value of the next pickle in a stream; a tensor is a `View`.

    Raises UserError if it holds anything but dictionaries, lists, tuples, strings, numbers and tensors.
    """
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(stream):
        machine.run(opcode.name, argument)
    return machine.stack.pop()


class _Machine:
    """The part of the pickle machine that a state dict needs (Python's pickletools documents the opcodes)."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, opcode: str, argument: Any) -> None:
        stack = self.stack
        match opcode:
            case 'PROTO' | 'FRAME' | 'STOP':
                pass
            case 'BINUNICODE' | 'SHORT_BINUNICODE' | 'BINUNICODE8' | 'BINSTRING' | 'SHORT_BINSTRING':
                stack.append(str(argument))
            case 'BININT' | 'BININT1' | 'BININT2' | 'LONG1' | 'LONG4' | 'BINFLOAT':
                stack.append(argument)
            case 'NONE' | 'NEWTRUE' | 'NEWFALSE':
                stack.append({'NONE': None, 'NEWTRUE': True, 'NEWFALSE': False}[opcode])
            case 'EMPTY_DICT' | 'EMPTY_LIST' | 'EMPTY_TUPLE':
                stack.append({'EMPTY_DICT': dict, 'EMPTY_LIST': list, 'EMPTY_TUPLE': tuple}[opcode]())
            case 'MARK':
                stack.append(_MARK)
            case 'TUPLE':
                stack.append(tuple(self._marked()))
            case 'TUPLE1' | 'TUPLE2' | 'TUPLE3':
                count = int(opcode[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case 'APPEND' | 'APPENDS':
                items = self._marked() if opcode == 'APPENDS' else [stack.pop()]
                _of_type(list, stack[-1]).extend(items)
            case 'SETITEM' | 'SETITEMS':
                items = self._marked() if opcode == 'SETITEMS' else [stack.pop(-2), stack.pop()]
                _put(stack[-1], items)
            case 'BINPUT' | 'LONG_BINPUT' | 'MEMOIZE':
                self.memo[len(self.memo) if argument is None else argument] = stack[-1]
            case 'BINGET' | 'LONG_BINGET':
                stack.append(self.memo[argument])
            case 'GLOBAL':
                stack.append(_admitted(*argument.split(' ', 1)))
            case 'STACK_GLOBAL':
                name, module = stack.pop(), stack.pop()
                stack.append(_admitted(_of_type(str, module), _of_type(str, name)))
            case 'BINPERSID':
                stack.append(_storage(stack.pop()))
            case 'REDUCE':
                arguments, function = stack.pop(), stack.pop()
                stack.append(_called(function, _of_type(tuple, arguments)))
            case 'BUILD':
                stack.pop()  # attributes of an OrderedDict: the versions of the modules
                _of_type(dict, stack[-1])
            case _:
                raise UserError(f'the pickle has the opcode {opcode}; expected a state dict, tensors and nothing else')

    def _marked(self) -> list[Any]:
        """What was pushed since the last mark, taken from the stack together with it."""
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]


def _admitted(module: str, name: str) -> Name:
    """The name of something that a state dict may ask for."""
    if (module, name) in (_ORDERED_DICT, _TENSOR, _PARAMETER) or (module == 'torch' and name in _STORAGES):
        return Name(module, name)
    raise UserError(
        f'the pickle asks for {module[:80]}.{name[:80]}; expected a state dict, tensors and nothing else. '
        'Loading it could run any code: if you trust it, let Hugging Face save it as safetensors'
    )


def _storage(pid: Any) -> Storage:
    """The storage of a persistent id: ('storage', type, key, device, number of elements)."""
    kind, dtype, key = _of_type(tuple, pid)[:3]
    if kind != 'storage' or not isinstance(dtype, Name) or dtype.name not in _STORAGES:
        raise ValueError('a persistent id is not that of a storage')
    return Storage(_of_type(str, key), _STORAGES[dtype.name])


def _called(function: Any, arguments: tuple[Any, ...]) -> Any:
    """What one of the functions of a state dict would return."""
    if function == _ORDERED_DICT and not arguments:
        return {}
    if function == _TENSOR:
        storage, offset, shape, strides = arguments[:4]
        return View(_of_type(Storage, storage), offset, _of_type(tuple, shape), _of_type(tuple, strides)).check()
    if function == _PARAMETER:
        return _of_type(View, arguments[0])
    raise ValueError('the pickle calls what is no function of a state dict')


def _put(target: Any, items: list[Any]) -> None:
    """Puts keys and values, in turn, into a dictionary."""
    target = _of_type(dict, target)
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[_of_type(str, key)] = value


def _of_type(wanted: type, value: Any) -> Any:
    """The value. Raises ValueError if it is of another type; says nothing of what it holds, which may be endless."""
    if type(value) is not wanted:
        raise ValueError(f'got a {type(value).__name__} where a {wanted.__name__} is expected')
    return value

"""Reading a stranger's pickle: nothing runs, nothing breaks, and a small file takes little memory."""

import contextlib
import io
import pickle
import pickletools
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.huggingface.pickles import Storage, View, load, read_pickle

FIXTURE = Path(__file__).parents[1] / 'fixtures' / 'marian'  # without conftest, which loads JAX: see FUZZ
FLOATS = Storage('0', np.dtype('<f4'))


@pytest.mark.parametrize(
    ('offset', 'shape', 'strides'),
    [
        (0, (5,), (1,)),
        (0, (2, 2), (3, 1)),
        (0, (2,), (-1,)),
        (0, (2**60,), (1,)),
        (2**70, (2,), (1,)),
        (0, ('2',), (1,)),
        (0, (2,), (1, 1)),
    ],
)
def test_a_tensor_that_is_no_window_on_its_storage_is_refused(offset, shape, strides) -> None:
    with pytest.raises(ValueError, match=r'no part of its storage|same length as shape'):
        View(FLOATS, offset, shape, strides).of(bytes(16))


def test_a_tensor_is_a_window_on_its_storage() -> None:
    storage = np.arange(6, dtype=np.float32).tobytes()
    assert View(FLOATS, 1, (3,), (1,)).of(storage).tolist() == [1, 2, 3]
    assert View(FLOATS, 0, (3, 2), (1, 3)).of(storage).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert View(FLOATS, 5, (1, 1), (0, 0)).of(storage).tolist() == [[5]]
    assert View(FLOATS, 0, (0, 4), (4, 1)).of(storage).shape == (0, 4)


OPCODES = {
    'PROTO': (b'\x80\x02N.', None),
    'FRAME': (b'\x95\x02\0\0\0\0\0\0\0N.', None),
    'STOP': (b'N.', None),
    'MARK': (b'(K\x01t.', (1,)),
    'NONE': (b'N.', None),
    'NEWTRUE': (b'\x88.', True),
    'NEWFALSE': (b'\x89.', False),
    'BININT': (b'J\xff\xff\xff\xff.', -1),
    'BININT1': (b'K\xff.', 255),
    'BININT2': (b'M\x01\x02.', 513),
    'LONG1': (b'\x8a\x02\xff\0.', 255),
    'LONG4': (b'\x8b\x01\0\0\0\xff.', -1),
    'BINFLOAT': (b'G?\xf8' + bytes(6) + b'.', 1.5),
    'BINSTRING': (b'T\x01\0\0\0\xe4.', 'ä'),
    'SHORT_BINSTRING': (b'U\x01a.', 'a'),
    'BINUNICODE': (b'X\x02\0\0\0\xc3\xa4.', 'ä'),
    'SHORT_BINUNICODE': (b'\x8c\x01a.', 'a'),
    'BINUNICODE8': (b'\x8d\x01' + bytes(7) + b'a.', 'a'),
    'EMPTY_LIST': (b'].', []),
    'APPEND': (b']Na.', [None]),
    'APPENDS': (b'](NNe.', [None, None]),
    'EMPTY_TUPLE': (b').', ()),
    'TUPLE': (b'(NNt.', (None, None)),
    'TUPLE1': (b'N\x85.', (None,)),
    'TUPLE2': (b'NN\x86.', (None, None)),
    'TUPLE3': (b'NNN\x87.', (None, None, None)),
    'EMPTY_DICT': (b'}.', {}),
    'SETITEM': (b'}U\x01aNs.', {'a': None}),
    'SETITEMS': (b'}(U\x01aNu.', {'a': None}),
    'BINPUT': (b'K\x05q\x07h\x07\x86.', (5, 5)),
    'LONG_BINPUT': (b'Nr\xff\xff\xff\xff.', None),
    'MEMOIZE': (b'K\x05\x94h\0\x86.', (5, 5)),
    'BINGET': (b'K\x05q\x07h\x07\x86.', (5, 5)),
    'LONG_BINGET': (b'K\x05q\x07j\x07\0\0\0\x86.', (5, 5)),
    'GLOBAL': (b'ctorch\nFloatStorage\n.', ('torch', 'FloatStorage')),
    'STACK_GLOBAL': (b'\x8c\x05torch\x8c\x0cFloatStorage\x93.', ('torch', 'FloatStorage')),
    'BINPERSID': (b'(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x04tQ.', FLOATS),
    'REDUCE': (b'ccollections\nOrderedDict\n)R.', {}),
    'BUILD': (b'ccollections\nOrderedDict\n)R}U\x09_metadataNsb.', {}),
}


@pytest.mark.parametrize('name', OPCODES)
def test_each_opcode_of_a_state_dict_gives_an_inert_value(name: str) -> None:
    content, expected = OPCODES[name]
    value = load(io.BytesIO(content))
    assert value == expected
    assert isinstance(value, (type(None), bool, int, float, str, list, tuple, dict))


@pytest.mark.parametrize('opcode', pickletools.opcodes, ids=lambda opcode: opcode.name)
def test_any_opcode_after_a_name_calls_nothing(opcode: pickletools.OpcodeInfo, monkeypatch) -> None:
    """Whatever objects or instances it would make: no name is looked up."""
    monkeypatch.setattr(pickle._Unpickler, 'find_class', lambda *_: pytest.fail('a name was looked up'))
    for before in (b'(cos\nsystem\n', b'(ctorch\nFloatStorage\n)', b'(U\x02osU\x06system'):
        with contextlib.suppress(Exception):
            load(io.BytesIO(before + opcode.code.encode('latin-1') + b'os\nsystem\n)R.'))


STATE = pickle.dumps((3, '<', None, None, None, 1 << 20, 1, 63), protocol=2)[2:-1]  # a data type's
SLOTS = b'N}U\x06moduleNs\x86'
NAMES = [b'ctorch\nBFloat16Storage\n', b'ctorch._utils\n_rebuild_tensor_v2\n', b'ccollections\nOrderedDict\n']
TENSOR = NAMES[1] + b'((U\x07storage' + NAMES[0] + b'U\x010U\x03cpuK\x04tQK\0K\x04\x85K\x01\x85tR'


@pytest.mark.parametrize('value', [*NAMES, TENSOR, b'}', b']', b')', b'N', b'U\x01a'])
def test_a_state_changes_nothing(value: bytes) -> None:
    """BUILD hands a state to the object below it; Python's unpickler would call bfloat16's __setstate__ with it."""
    sound = load(io.BytesIO(value + b'.'))
    for state in (STATE, SLOTS, b'}U\x08__call__Ns', b'N', b'K\x01'):
        found = load(io.BytesIO(value + state + b'b.'))
        assert found == sound
        assert type(found) is type(sound)
        assert not hasattr(found, '__dict__') or not vars(found)
    assert load(io.BytesIO(TENSOR + b'.')) == View(Storage('0', np.dtype(ml_dtypes.bfloat16)), 0, (4,), (1,))
    assert np.dtype(ml_dtypes.bfloat16).itemsize == 2


@pytest.mark.parametrize('function', [*NAMES, b'N', b'}', b']', b'K\x01', b'U\x01a', TENSOR])
def test_calling_gives_a_value_or_is_refused(function: bytes) -> None:
    for arguments in (b')', b'K\x01\x85', b'}', b'K\x01', b'N', b'](K\x01K\x02e', NAMES[0]):
        with contextlib.suppress(TypeError, ValueError, IndexError):
            assert load(io.BytesIO(function + arguments + b'R.')) == {}  # an OrderedDict's


def test_a_state_dict_is_a_dict_of_tensors(tmp_path: Path) -> None:
    for content in (NAMES[0] + STATE + b'b.', b'}U\x01a' + NAMES[0] + b's.', b'].'):
        file = tmp_path / 'pytorch_model.bin'
        with zipfile.ZipFile(file, 'w') as archive:
            archive.writestr('archive/data.pkl', content)
        with pytest.raises(UserError, match='state dict'):
            dict(read_pickle(file))


@pytest.mark.parametrize(
    ('content', 'expected'),
    [
        (b'cbuiltins\nexec\n.', r'asks for builtins\.exec'),
        (b'\x8c\x05torch\x8c\x04load\x93.', r'asks for torch\.load'),
        (b'K\x01K\x02\x86K\x01R.', 'must be an iterable'),
        (b'}K\x01K\x02s.', 'got a int where a str'),
        (b'K\x01Q.', 'got a int where a tuple'),
    ],
)
def test_only_the_opcodes_and_names_of_a_state_dict_are_read(content: bytes, expected: str) -> None:
    with pytest.raises((UserError, ValueError, TypeError, IndexError), match=expected):
        load(io.BytesIO(content))


def test_nested_tuples_that_repeat_themselves_take_no_time() -> None:
    """Each level holds the one before twice: printing, hashing or comparing the value would take 2^60 steps."""
    nested = b')' + b'q\x00h\x00\x86' * 60
    for ending in (b'Q.', b')R.', b'}' + nested + b'K\x01s.', b'\x8c\x01a\x93.'):
        with pytest.raises((ValueError, TypeError, pickle.UnpicklingError)):
            load(io.BytesIO(nested + ending))


def test_a_storage_of_a_legacy_file_is_named_by_a_string(tmp_path: Path) -> None:
    pickles = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {'little_endian': True}, {})]
    nested = b']' + b')' + b'q\x00h\x00\x86' * 60 + b'a.'
    (tmp_path / 'pytorch_model.bin').write_bytes(b''.join(pickles) + nested)
    with pytest.raises(UserError, match='got a tuple where a str is expected'):
        dict(read_pickle(tmp_path / 'pytorch_model.bin'))


@pytest.mark.parametrize('kind', ['compressed', 'overlapping', 'many views'])
def test_a_small_file_does_not_unpack_into_gigabytes(kind: str, tmp_path: Path) -> None:
    file = tmp_path / 'pytorch_model.bin'
    with zipfile.ZipFile(FIXTURE / 'zip.bin') as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    (top,) = (name for name in parts if name.endswith('data.pkl'))
    if kind == 'compressed':
        with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
            for name, part in parts.items():
                archive.writestr(name, part if name == top else bytes(1 << 20))
    elif kind == 'overlapping':
        with zipfile.ZipFile(file, 'w') as archive:
            archive.writestr(top, parts[top])
            archive.writestr('archive/data/0', bytes(100_000))
            for copy in range(1, 50):
                entry = zipfile.ZipInfo(f'archive/data/{copy}')
                last = archive.infolist()[1]
                for field in ('file_size', 'compress_size', 'CRC', 'header_offset'):
                    setattr(entry, field, getattr(last, field))
                archive.filelist.append(entry)
    else:
        tensor = (
            b'ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n'
            b'X\x01\x00\x00\x000NJ\x00\x00\x01\x00tQK\x00J\x00\x00\x01\x00\x85K\x01\x85tR'
        )
        named = b''.join(b'X\x04\x00\x00\x00' + b'%04d' % n + b'h\x00' for n in range(1000))
        with zipfile.ZipFile(file, 'w') as archive:
            archive.writestr('archive/data.pkl', b'\x80\x02}(X\x01\x00\x00\x00a' + tensor + b'q\x00' + named + b'u.')
            archive.writestr('archive/data/0', bytes(4 << 16))
    expected = {'compressed': 'are compressed', 'many views': 'tensors are larger'}
    with pytest.raises(UserError, match=expected.get(kind, 'parts are larger')):
        dict(read_pickle(file))

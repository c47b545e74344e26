"""Random damage to the files of a folder, as a disk, a copy cut short or a stranger might do it."""

import json
import os
import random
import re
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECRET = 'SECRET-7f3a'  # files outside the folder, which links lead to, hold it; nothing may print it
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 10**15, 10**30, 0.5, -1e308, 1e308)
VALUES = (
    *NUMBERS,
    None,
    True,
    False,
    '',
    'x',
    '\ud800',
    '../../x',
    '/etc/passwd',
    [],
    {},
    [[]],
    {'x': 1},
    'y' * 10_000,
)
_NUMBER = re.compile(rb'-?\d+(\.\d+)?([eE][-+]?\d+)?')


def damage(folder: Path, outside: Path, rng: random.Random) -> str:
    """Damages one to three files of the folder; returns in words how. `outside` is from `make_outside`."""
    done = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        files = sorted(file for file in folder.rglob('*') if _is_small_file(file))
        if not files:
            break
        file = rng.choice(files)
        kind = rng.random()
        if kind < 0.12:
            how = rng.choice(REPLACEMENTS)
            how(file, outside, rng)
        elif kind < 0.18:
            how = swap
            swap(file, rng.choice(files))
        else:
            content = file.read_bytes()
            parsed = _parsed(content) if rng.random() < 0.7 else None
            if isinstance(parsed, dict | list):
                how = rng.choice(JSON_DAMAGES)
                file.write_text(json.dumps(how(parsed, rng)), encoding='utf-8', errors='replace')
            else:
                how = rng.choice(DAMAGES)
                file.write_bytes(how(content, rng))
        done.append(f'{file.relative_to(folder)}: {how.__name__}')
    return ', '.join(done)


def _is_small_file(file: Path) -> bool:
    return not file.is_symlink() and file.is_file() and file.stat().st_size < 1 << 24


def make_outside(folder: Path) -> Path:
    """A folder of files that are none of the stranger's business, for links to lead to."""
    folder.mkdir()
    (folder / 'id_rsa').write_text(f'-----BEGIN KEY-----\n{SECRET}\n{SECRET} {SECRET}\n-----END KEY-----\n')
    (folder / 'auth.json').write_text(json.dumps({'auths': {SECRET: {'auth': SECRET}}, 'name': SECRET}))
    (folder / 'list.json').write_text(json.dumps([SECRET, {SECRET: [SECRET]}]))
    return folder


# --- in the place of a file -----------------------------------------------------------------------------------------


def remove(file: Path, outside: Path, rng: random.Random) -> None:
    file.unlink()


def empty(file: Path, outside: Path, rng: random.Random) -> None:
    file.write_bytes(b'')


def make_folder(file: Path, outside: Path, rng: random.Random) -> None:
    file.unlink()
    file.mkdir()


def make_fifo(file: Path, outside: Path, rng: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


def make_socket(file: Path, outside: Path, rng: random.Random) -> None:
    file.unlink()
    here = os.getcwd()
    os.chdir(file.parent)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(file.name)
    os.chdir(here)


def make_sparse(file: Path, outside: Path, rng: random.Random) -> None:
    if rng.random() < 0.5:
        file.write_bytes(b'')
    os.truncate(file, rng.choice((1 << 30, 1 << 40)))


def link(file: Path, outside: Path, rng: random.Random) -> None:
    devices = ('/dev/zero', '/dev/full', '/proc/self/mem', '/proc/self/pagemap', '/etc/passwd')
    targets = [*outside.iterdir(), outside, *devices, file.name, '..', '/absent']
    file.unlink()
    file.symlink_to(rng.choice(targets))


def link_to_its_copy(file: Path, outside: Path, rng: random.Random) -> None:
    copy = file.with_name(f'{file.name}.copy')
    file.rename(copy)
    file.symlink_to(copy.name)


REPLACEMENTS = (remove, empty, make_folder, make_fifo, make_socket, make_sparse, link, link, link_to_its_copy)


def swap(one: Path, other: Path) -> None:
    """Exchanges the contents of two files."""
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])


# --- bytes ----------------------------------------------------------------------------------------------------------


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if content else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def delete(content: bytes, rng: random.Random) -> bytes:
    first, last = _piece(content, rng)
    return content[:first] + content[last:]


def repeat(content: bytes, rng: random.Random) -> bytes:
    first, last = _piece(content, rng)
    return content[:last] + content[first:last] * rng.choice((1, 1, 3, 100)) + content[last:]


def change_a_number(content: bytes, rng: random.Random) -> bytes:
    found = list(_NUMBER.finditer(content[:200_000]))
    if not found:
        return overwrite_an_integer(content, rng)
    match = rng.choice(found)
    number = rng.choice((*NUMBERS, 'NaN', 'Infinity', '1e999', '9' * 5000))
    return content[: match.start()] + str(number).encode() + content[match.end() :]


def overwrite_an_integer(content: bytes, rng: random.Random) -> bytes:
    """A binary number, such as a length, becomes huge or negative."""
    form = rng.choice(('<i', '<I', '<q', '>i', '<H'))
    size = struct.calcsize(form)
    low, high = (0, 256**size - 1) if form[1].isupper() else (-(256**size) // 2, 256**size // 2 - 1)
    value = rng.choice((low, high, high // 2 + 1, rng.randint(low, high)))
    place = rng.randrange(max(len(content) - size, 0) + 1)
    return content[:place] + struct.pack(form, value) + content[place + size :]


def overwrite_a_varint(content: bytes, rng: random.Random) -> bytes:
    """A length as protocol buffers write it."""
    place = rng.randrange(len(content) + 1)
    varint = rng.choice(
        (b'\xff\xff\xff\xff\x07', b'\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01', b'\x80' * 11, b'\xff\x7f')
    )
    return content[:place] + varint + content[place + rng.choice((1, 1, len(varint))) :]


def replace_all(content: bytes, rng: random.Random) -> bytes:
    return rng.choice((b'[' * 200_000, b'{"a":' * 100_000, b'null', b'[]', b'{}', b'\x00' * 1000, rng.randbytes(1000)))


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bits,
    cut,
    delete,
    repeat,
    change_a_number,
    change_a_number,
    overwrite_an_integer,
    overwrite_a_varint,
    replace_all,
)


def _piece(content: bytes, rng: random.Random) -> tuple[int, int]:
    first = rng.randrange(len(content) + 1)
    return first, min(len(content), first + rng.choice((1, 2, 8, 100, 1000)))


# --- JSON -----------------------------------------------------------------------------------------------------------


def change_a_value(tree: Any, rng: random.Random) -> Any:
    home, key = _place(tree, rng)
    if home is None:
        return rng.choice(VALUES)
    home[key] = rng.choice(VALUES)
    return tree


def scale_a_number(tree: Any, rng: random.Random) -> Any:
    """A number becomes another that is still plausible, or too large for this machine."""
    places = [place for place in _places(tree) if type(place[0][place[1]]) in (int, float)]
    if not places:
        return change_a_value(tree, rng)
    home, key = rng.choice(places)
    home[key] = type(home[key])(home[key] * rng.choice((-1, 2, 1000, 10**6, 10**9)) + rng.choice((0, 1)))
    return tree


def delete_a_value(tree: Any, rng: random.Random) -> Any:
    home, key = _place(tree, rng)
    if home is None:
        return {}
    del home[key]
    return tree


def rename_a_field(tree: Any, rng: random.Random) -> Any:
    places = [(home, key) for home, key in _places(tree) if isinstance(home, dict)]
    if not places:
        return change_a_value(tree, rng)
    home, key = rng.choice(places)
    home[rng.choice(('', 'x', '__class__', '__init__', 'task', '/etc/passwd', '\ud800', key * 1000))] = home.pop(key)
    return tree


JSON_DAMAGES = (change_a_value, scale_a_number, delete_a_value, rename_a_field)


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _place(tree: Any, rng: random.Random) -> tuple[Any, Any]:
    """A container and a key in it; two Nones where there is none."""
    places = list(_places(tree))
    return rng.choice(places) if places else (None, None)


def _places(tree: Any) -> Any:
    left = [tree]
    while left:
        home = left.pop()
        for key in list(home if isinstance(home, dict) else range(len(home))):
            yield home, key
            if isinstance(home[key], dict | list):
                left.append(home[key])


def write_folder(folder: Path, sound: Path) -> None:
    """A fresh copy of the sound folder."""
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(sound, folder)

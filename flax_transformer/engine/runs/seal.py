"""A seal on a run's settings: proof that they come from this user, and not from whoever the folder was copied from.

The seal is a file in the run directory, an HMAC of the settings by a random key that only this user can read. It stays
valid where the run is moved to, for as long as the key is there too.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole

SEAL_FILE = 'seal'
_DIGITS = 64  # hexadecimal


def key_file() -> Path:
    """The user's key, below $XDG_STATE_HOME or ~/.local/state. Raises RuntimeError if there is no home folder."""
    state = os.environ.get('XDG_STATE_HOME') or Path.home() / '.local' / 'state'
    return Path(state) / 'flax_transformer' / 'key'


def seal(folder: Path, settings: str) -> str:
    """Seals the settings of the run in `folder`; returns why that was not possible, or ''."""
    try:
        file = key_file()
        if not file.exists():
            _make_key(file)
        write_whole(folder / SEAL_FILE, _seal_of(_read_key(file), settings) + '\n')
    except (OSError, RuntimeError, UserError) as error:
        return str(error)
    return ''


def is_sealed(folder: Path, settings: str) -> bool:
    """Whether this user has sealed these settings in the run in `folder`."""
    try:
        found = read_limited(folder / SEAL_FILE, 1000).strip()
        return hmac.compare_digest(found, _seal_of(_read_key(key_file()), settings).encode())
    except (OSError, RuntimeError, UserError):
        return False


def copy_seal(run: Path, to: Path) -> None:
    """Copies the seal of a run, if it has one, to a run of the same settings; no link, which may lead to anything."""
    with contextlib.suppress(OSError, UserError):
        if not (run / SEAL_FILE).is_symlink():
            write_whole(to / SEAL_FILE, read_limited(run / SEAL_FILE, 1000))


def _seal_of(key: bytes, settings: str) -> str:
    return hmac.new(key, settings.encode('utf-8', 'surrogatepass'), hashlib.sha256).hexdigest()


def _read_key(file: Path) -> bytes:
    key = read_limited(file, 1000)
    if len(key) != _DIGITS:
        raise UserError(f'{file} is damaged: expected {_DIGITS} hexadecimal digits; remove it')
    return key


def _make_key(file: Path) -> None:
    """Writes a random key that only its owner can read, whole; of several processes the first wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f'{file.name}.{secrets.token_hex(8)}')
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb') as opened:
            opened.write(secrets.token_hex(_DIGITS // 2).encode())
        try:
            os.link(partial, file)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not file.exists():
                partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)

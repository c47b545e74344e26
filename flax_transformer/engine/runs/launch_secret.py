"""A secret that the processes of a launch share: a random file in their run directory, which all hosts see."""

import contextlib
import os
import secrets
import time
from pathlib import Path

from flax_transformer.common.errors import UserError

SECRET_FILE = 'rendezvous'
_DIGITS = 64  # hexadecimal


def shared_secret(folder: Path) -> bytes:
    """The secret in the folder: a random file that only its owner can read, made by whoever comes first.

    Raises UserError if the folder cannot be used.
    """
    file = folder / SECRET_FILE
    for _ in range(50):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _create(file)
            opened = os.open(file, os.O_RDONLY | getattr(os, 'O_NOFOLLOW', 0) | getattr(os, 'O_NONBLOCK', 0))
            try:
                text = os.read(opened, _DIGITS + 2)
            finally:
                os.close(opened)
            if len(text) == _DIGITS + 1:
                return text
        except FileNotFoundError:  # process 0 of an earlier launch has just removed it
            pass
        except OSError as error:
            raise UserError(f'{file}, which all processes of the run share: {error.strerror}') from None
        time.sleep(0.05)  # another process is still writing it
    raise UserError(f'{file} is damaged: expected {_DIGITS} hexadecimal digits and a line end; remove it')


def remove_secret(folder: Path) -> None:
    """Removes the secret, not the folder: the user may have made it, with permissions or striping of its own."""
    with contextlib.suppress(OSError):
        (folder / SECRET_FILE).unlink()


def _create(file: Path) -> None:
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    try:
        os.write(opened, secrets.token_hex(_DIGITS // 2).encode() + b'\n')
    except OSError:  # a full disk
        file.unlink()
        raise
    finally:
        os.close(opened)

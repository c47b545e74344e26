"""Downloading files, whole or not at all, by the standard library and so through the proxies of its environment."""

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from flax_transformer.common import __version__
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of, written_whole

BLOCK = 1 << 16  # bytes read at a time
TRIES = 4  # a file is asked for again if its connection breaks
TIMEOUT = 30.0  # seconds without a byte
MOST = 1 << 32  # bytes of a file; an answer without an end would fill the disk
_LOST = (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, HTTPException)
Progress = Callable[[int], object]  # called with the number of new bytes


class Downloaded(NamedTuple):
    """What came from where."""

    url: str
    bytes: int
    modified: str | None  # the date that its server gives
    sha256: str


class Unreachable(UserError):
    """A file that its server does not hand out, or a server that does not answer."""


def download(url: str, file: Path, *, sha256: str | None = None, progress: Progress = lambda count: None) -> Downloaded:
    """Downloads a file, unless it is there with this checksum.

    Raises Unreachable if it does not come, and UserError, with both sums, if it is not the one expected.
    """
    if sha256 is not None and file.exists():
        digest = sha256_of(file)
        if digest != sha256:
            raise UserError(
                f'{file} is not what {url} is: got SHA-256 {digest}, expected {sha256}; move it away, or choose '
                'another folder'
            )
        return Downloaded(url, file.stat().st_size, None, digest)

    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + '.partial')
    modified = _fetch(url, partial, progress)
    size = partial.stat().st_size
    digest = sha256_of(partial)
    if sha256 not in (None, digest):
        partial.unlink()
        raise UserError(
            f'{url} is not the file that was expected: got SHA-256 {digest} ({size:,} bytes), expected {sha256}; '
            'nothing of it was kept. A proxy or a login page may have answered instead'
        )
    partial.replace(file)
    return Downloaded(url, size, modified, digest)


def _fetch(url: str, file: Path, progress: Progress) -> str | None:
    """Downloads a file, in several tries; returns the date that the server gives it. Raises Unreachable."""
    for attempt in range(TRIES):
        time.sleep(0.2 * attempt)
        try:
            return _fetch_once(url, file, progress)
        except urllib.error.HTTPError as error:
            error.close()
            why = f'the server says {error.code} {error.reason}'
            if error.code < 500:
                break
        except _LOST as error:  # not a full disk, which no further try helps
            why = getattr(error, 'reason', None) or error
            why = getattr(why, 'strerror', None) or why
    raise Unreachable(f'{url} was not downloaded: {why}')


def _fetch_once(url: str, file: Path, progress: Progress) -> str | None:
    headers = {'User-Agent': f'flax_transformer/{__version__}', 'Accept-Encoding': 'identity'}
    request = urllib.request.Request(url, headers=headers)
    # A new opener, for urlopen keeps the proxies of its first call.
    with urllib.request.build_opener().open(request, timeout=TIMEOUT) as response, written_whole(file) as opened:
        expected = getattr(response, 'length', None) or 0  # http.client gives 0 for what is no number
        count = 0
        while block := response.read(BLOCK):
            count += len(block)
            if count > MOST:
                raise Unreachable(f'{url} was not downloaded: it has more than {MOST:,} bytes')
            opened.write(block)
            progress(len(block))
        if count < expected:
            raise ConnectionError(f'the connection ended after {count:,} of {expected:,} bytes')
        return response.headers['Last-Modified']

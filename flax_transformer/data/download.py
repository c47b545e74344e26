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
from flax_transformer.common.files import naming, sha256_of

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
    """Downloads a file, unless it is there with this checksum; a broken download of known checksum is continued.

    Raises Unreachable if it does not come, and UserError, with both sums, if it is not the one expected.
    """
    if sha256 is not None and file.exists():
        found = sha256_of(file)
        if found != sha256:
            raise UserError(
                f'{file} is not what {url} is: got SHA-256 {found}, expected {sha256}; move it away, or choose another '
                'folder'
            )
        return Downloaded(url, file.stat().st_size, None, found)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + '.partial')
    if sha256 is None:
        partial.unlink(missing_ok=True)  # the file may be another one today
    was_begun = partial.exists()
    modified = _fetch(url, partial, progress)
    found = sha256_of(partial)
    if was_begun and found != sha256:  # what was there may have been damaged
        partial.unlink()
        modified = _fetch(url, partial, progress)
        found = sha256_of(partial)
    if sha256 not in (None, found):
        size = partial.stat().st_size
        partial.unlink()
        raise UserError(
            f'{url} is not the file that was expected: got SHA-256 {found} ({size:,} bytes), expected {sha256}; '
            'nothing of it was kept. A proxy or a login page may have answered instead'
        )
    partial.replace(file)
    return Downloaded(url, file.stat().st_size, modified, found)


def _fetch(url: str, partial: Path, progress: Progress) -> str | None:
    """Continues a file until it is whole; returns the date that the server gives it. Raises Unreachable."""
    why: object = ''
    for attempt in range(TRIES):
        begun = partial.stat().st_size if partial.exists() else 0
        if attempt:
            time.sleep(0.2 * attempt)
        try:
            return _fetch_once(url, partial, begun, progress)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and begun:  # more than the file has
                partial.unlink()
                continue
            if error.code < 500:
                raise Unreachable(f'{url} was not downloaded: the server says {error.code} {error.reason}') from None
            why = f'the server says {error.code} {error.reason}'
        except _LOST as error:  # not a full disk, which no further try helps
            why = getattr(error, 'reason', None) or error
            why = getattr(why, 'strerror', None) or why
    raise Unreachable(f'{url} was not downloaded: {why}')


def _fetch_once(url: str, partial: Path, begun: int, progress: Progress) -> str | None:
    headers = {'User-Agent': f'flax_transformer/{__version__}', 'Accept-Encoding': 'identity'}
    if begun:
        headers['Range'] = f'bytes={begun}-'
    request = urllib.request.Request(url, headers=headers)
    # A new opener, for urlopen keeps the proxies of its first call.
    with urllib.request.build_opener().open(request, timeout=TIMEOUT) as response:
        is_rest = getattr(response, 'status', 200) == 206
        expected = getattr(response, 'length', None) or 0  # http.client gives 0 for what is no number
        count = 0
        with naming(partial), partial.open('ab' if is_rest else 'wb') as opened:
            while block := response.read(BLOCK):
                count += len(block)
                if begun * is_rest + count > MOST:
                    partial.unlink()
                    raise Unreachable(f'{url} was not downloaded: it has more than {MOST:,} bytes')
                opened.write(block)
                progress(len(block))
        if count < expected:
            raise ConnectionError(f'the connection ended after {count:,} of {expected:,} bytes')
        return response.headers['Last-Modified']

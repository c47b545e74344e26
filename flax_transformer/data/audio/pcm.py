"""A stream of raw samples, as a recorder writes into a pipe."""

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

_MOST_BYTES = 1 << 16  # read at a time; whatever has come is passed on at once


def pcm_chunks(stream: BinaryIO, say: Callable[[str], None] = lambda _: None) -> Iterator[np.ndarray]:
    """The samples of a mono stream of 16-bit little-endian integers (s16le), as float32 [n] in -1..1.

    A chunk has whatever has come since the last one, at least one sample: nothing waits for a certain size. Half a
    sample at the end of the stream is dropped; `say` gets a message about it. For example,
    `arecord -q -t raw -f S16_LE -c 1 -r 16000`.
    """
    # `read` of a buffered stream waits for all that was asked for.
    read = stream.read1 if hasattr(stream, 'read1') else stream.read
    half = b''
    while content := read(_MOST_BYTES):
        content = half + content
        whole = len(content) - len(content) % 2
        half = content[whole:]
        if whole:
            yield np.frombuffer(content[:whole], '<i2').astype(np.float32) / 32768
    if half:
        say('the stream ended within a sample: a byte is left over')

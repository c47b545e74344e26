"""WAV files, and raw samples as a recorder writes them into a pipe.

scipy.io.wavfile reads no header on its own, warns of chunks that it does not know, and raises at a file that was cut.
"""

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from flax_transformer.common.errors import BadInput

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE  # format tags
_UNKNOWN_SIZE = 0x7FFFF000  # what writes into a pipe cannot know the size: it declares this or more
_MOST_BYTES = 1 << 16  # read at a time; whatever has come is passed on at once


class Header(NamedTuple):
    """What a recording's header says, as far as the file holds it."""

    frames: int  # samples of each channel
    rate: int  # Hz
    channels: int
    missing: int = 0  # frames that it promises and the file does not hold
    remarks: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return self.frames / self.rate


class Wav(NamedTuple):
    """Where a WAV file that this module decodes has its samples, and how they are coded."""

    header: Header
    width: int  # bytes of a sample
    is_float: bool
    start: int  # byte where the samples begin


def read_wav_header(file: BinaryIO) -> Wav | None:
    """The header of a file that starts with RIFF or RF64; None for a coding other than PCM and IEEE floats.

    Raises BadInput, without the file's name, for a header that is damaged.
    """
    size = file.seek(0, 2)
    file.seek(0)
    riff_size = struct.unpack('<4xI4x', file.read(12))[0]
    found = None
    wide_size = None
    while True:
        head = file.read(8)
        if len(head) < 8:
            raise BadInput('the WAV file ends before its samples; expected a whole file')
        name, declared = struct.unpack('<4sI', head)
        start = file.tell()
        if name == b'data':
            break
        if name == b'fmt ':
            found = _format(file.read(min(declared, 40)))
        elif name == b'ds64':  # RF64 has sizes of 64 bits
            wide_size = struct.unpack('<8xQ', file.read(16).ljust(16, b'\0'))[0]
        file.seek(start + declared + declared % 2)
    if found is None:
        raise BadInput('the WAV file does not say how its samples are coded; expected a chunk named fmt before them')
    tag, channels, rate, block, bits = found
    if tag not in (PCM, FLOAT):
        return None
    width = -(-bits // 8)
    if channels < 1 or width not in ((4, 8) if tag == FLOAT else (1, 2, 3, 4)):
        raise BadInput(f'the WAV file has {channels} channels of {bits} bits; expected 8, 16, 24 or 32 bits a sample')
    # Some recorders write any number there.
    remarks = () if block == channels * width else ('the WAV header is wrong about the bytes of a frame',)
    block = channels * width
    if declared == 0xFFFFFFFF and wide_size is not None:
        declared = wide_size
    elif declared >= _UNKNOWN_SIZE or (declared == 0 and riff_size in (0, 0xFFFFFFFF)):
        declared = size - start
    frames = min(declared, max(size - start, 0)) // block
    header = Header(frames, rate, channels, declared // block - frames, remarks)
    return Wav(header, width, tag == FLOAT, start)


def _format(content: bytes) -> tuple[int, int, int, int, int]:
    """The format tag, channels, rate, bytes of a sample of all channels, and bits of one."""
    if len(content) < 16:
        raise BadInput('the WAV file is damaged: its chunk fmt is too short')
    tag, channels, rate, _, block, bits = struct.unpack('<HHIIHH', content[:16])
    if tag == EXTENSIBLE and len(content) >= 26:
        tag = struct.unpack('<H', content[24:26])[0]  # begins the identifier of the coding
    return tag, channels, rate, block, bits


def decoded(content: bytes, wav: Wav) -> np.ndarray:
    """Samples as float32 [frames, channels]: integers scaled to -1..1, floats as they are."""
    if wav.is_float:
        with np.errstate(over='ignore'):  # infinities are found later
            samples = np.frombuffer(content, f'<f{wav.width}').astype(np.float32)
    elif wav.width == 1:  # the only one without a sign
        samples = (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
    elif wav.width == 3:
        wide = np.zeros((len(content) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        samples = wide.view('<i4')[:, 0].astype(np.float32) / 2**31
    else:
        samples = np.frombuffer(content, f'<i{wav.width}').astype(np.float32) / 2 ** (8 * wav.width - 1)
    return samples.reshape(-1, wav.header.channels)


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

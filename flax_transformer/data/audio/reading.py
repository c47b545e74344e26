"""Recordings as samples: WAV, whatever else libsndfile reads, and raw samples that a recorder writes into a pipe.

WAV is read here: scipy.io.wavfile reads no header on its own, and raises at a file that was cut.
"""

import contextlib
import io
import itertools
import struct
from collections.abc import Callable, Iterator
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.files import open_regular, read_at_most
from flax_transformer.common.installing import install_command
from flax_transformer.data.lines import no_such_file

MOST_HOURS = 4  # a recording is read whole: 0.9 GB at 16 kHz, and as much while it is resampled
MOST_SAMPLES = 1 << 28  # 1.1 GB; 4 hours at up to 18 kHz, 93 minutes at 48 kHz
RATES = range(1_000, 768_001)  # Hz
SILENCE = 1e-4  # peak; -80 dB of full scale
_BLOCK = 1 << 12  # frames decoded at a time; damage loses up to this many before it
_BLOCK_VALUES = 1 << 18  # fewer frames if they have more values
_UNKNOWN_FRAMES = 1 << 40
_COMPRESSED_AUDIO = {b'fLaC': 'FLAC', b'OggS': 'OGG', b'ID3\x02': 'MP3', b'ID3\x03': 'MP3', b'ID3\x04': 'MP3'}
# Format tags of WAV.
_PCM = 1
_FLOAT = 3
_EXTENSIBLE = 0xFFFE
_UNKNOWN_SIZE = 0x7FFFF000  # a recorder that writes into a pipe declares this or more
_MOST_BYTES = 1 << 16  # read at a time from a raw stream


class Source(NamedTuple):
    """A recording's bytes: a file, a part of it, or memory."""

    path: Path
    name: str  # messages show it; 'recordings.tar:a/b.wav' in an archive
    start: int = 0
    size: int | None = None  # bytes; None: all
    content: bytes | None = None  # unpacked from a compressed archive

    def open(self) -> BinaryIO:
        if self.content is not None:
            return io.BytesIO(self.content)
        opened = open_regular(self.path)
        if self.size is None:
            return opened
        with opened:
            opened.seek(self.start)
            return io.BytesIO(read_at_most(opened, self.size))


class Audio(NamedTuple):
    """A recording, mono."""

    samples: np.ndarray  # float32 [T], in -1..1
    # What was done and what is odd, each worded the same for every recording, so that they can be counted.
    remarks: tuple[str, ...] = ()


class Header(NamedTuple):
    frames: int  # samples of each channel that the file holds
    rate: int  # Hz
    channels: int
    missing: int = 0  # frames that it promises besides
    remarks: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return self.frames / self.rate


def read_audio(file: Path | str | Source, rate: int, *, segment: tuple[float, float] | None = None) -> Audio:
    """The samples of a recording at `rate` Hz, its channels averaged, and remarks.

    A file that was cut is read as far as it goes; of a `segment`, its beginning and length in seconds, that alone.
    Raises BadInput, in one line with the name, for what cannot be read, is too long, or not finite.
    """
    with _opened(file) as opened:
        header, blocks = _open_audio(opened)
        first = 0
        if segment:
            first = round(segment[0] * header.rate)
            frames = min(round(segment[1] * header.rate), header.frames - first)
            header = header._replace(frames=max(frames, 0), missing=0)
        samples, remarks = _mixed_down(header, blocks(first, header.frames))
    if header.channels > 1:
        remarks.append(f'mixed down from {header.channels} channels')
    if header.rate != rate:
        remarks.append(f'resampled from {header.rate:,} to {rate:,} Hz')
    return Audio(resampled(samples, header.rate, rate), tuple(remarks))


def read_header(file: Path | Source) -> Header:
    """Raises BadInput as `read_audio` does."""
    with _opened(file) as opened:
        return _open_audio(opened)[0]


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Samples [T] at another rate, [ceil(T * wanted / rate)], by a polyphase anti-aliasing filter."""
    if rate == wanted:
        return samples
    from scipy.signal import resample_poly

    divisor = gcd(rate, wanted)
    return resample_poly(samples, wanted // divisor, rate // divisor).astype(np.float32)


def faster(samples: np.ndarray, speed: float, count: int) -> np.ndarray:
    """The first `count` samples of a recording played `speed` times as fast: the pitch changes, too."""
    return np.interp(np.arange(count) * speed, np.arange(len(samples)), samples).astype(np.float32)


def audio_of(samples: np.ndarray, rate: int) -> Audio:
    """Samples [T] as a file of them would be read. Raises BadInput as `checked_samples` does."""
    samples = checked_samples(samples)
    peak = float(np.max(np.abs(samples), initial=0))
    samples, remarks = _in_full_scale(samples, rate, peak=peak, clipped=_num_clipped(samples))
    return Audio(samples, tuple(remarks))


def checked_samples(samples: np.ndarray) -> np.ndarray:
    """Samples [T] as floats. Raises BadInput if they are no mono sound, or not finite."""
    samples = np.asarray(samples)
    if samples.ndim != 1 or samples.dtype not in (np.int16, np.float32, np.float64):
        raise BadInput(
            f'samples of shape {samples.shape} and type {samples.dtype}: expected one channel, [T], of int16, or '
            'float32 or float64 in -1..1'
        )
    if samples.dtype == np.int16:
        return samples.astype(np.float32) / 32768
    count = int(samples.size - np.isfinite(samples).sum())
    if count:
        raise BadInput(f'{count:,} samples are NaN or infinite: expected numbers in -1..1')
    return samples


def pcm_chunks(stream: BinaryIO, say: Callable[[str], None] = lambda _: None) -> Iterator[np.ndarray]:
    """The samples of a mono stream of 16-bit little-endian integers (s16le), as float32 [n] in -1..1.

    A chunk has what has come since the last one. `say` hears of half a sample at the end.
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


@contextlib.contextmanager
def _opened(file: Path | str | Source) -> Iterator[BinaryIO]:
    if file == '':  # a Path of it would be the folder
        raise BadInput("got the name '' (empty); expected a recording")
    source = file if isinstance(file, Source) else Source(Path(file), str(file))
    try:
        with source.open() as opened:
            yield opened
    except FileNotFoundError:
        raise BadInput(no_such_file(source.path)) from None
    except OSError as error:
        raise BadInput(f'{source.name} could not be read: {error.strerror or error}') from None
    except BadInput as error:
        raise BadInput(f'{source.name}: {error}') from None
    except UserError as error:  # names the file
        raise BadInput(str(error)) from None


Blocks = Callable[[int, int], Iterator[np.ndarray]]  # (first frame, count) -> samples [frames, channels]


def _open_audio(file: BinaryIO) -> tuple[Header, Blocks]:
    start = file.read(12)
    if not start:
        raise BadInput('the file is empty; expected a recording')
    wav = _open_wav(file) if start[:4] == b'RIFF' and start[8:] == b'WAVE' else None
    header, blocks = wav or _open_soundfile(file, start)
    if header.rate not in RATES:
        raise BadInput(f'the header says {header.rate:,} Hz; expected {RATES[0]:,} to {RATES[-1]:,}')
    if not header.frames:
        raise BadInput('holds no samples; expected a recording')
    return header, blocks


def _open_wav(file: BinaryIO) -> tuple[Header, Blocks] | None:
    """None for a coding other than PCM and IEEE floats."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    riff_size = struct.unpack('<4xI4x', file.read(12))[0]
    coding = b''
    while True:
        head = file.read(8)
        if len(head) < 8:
            raise BadInput('the WAV file ends before its samples; expected a whole file')
        name, declared = struct.unpack('<4sI', head)
        start = file.tell()
        if name == b'data':
            break
        if name == b'fmt ':
            coding = file.read(min(declared, 40))
            if len(coding) < 16:
                raise BadInput('the WAV file is damaged: its chunk fmt is too short')
        file.seek(start + declared + declared % 2)
    if not coding:
        raise BadInput('the WAV file has no chunk named fmt before its samples, which says how they are coded')

    tag, channels, rate, _, block, bits = struct.unpack('<HHIIHH', coding[:16])
    if tag == _EXTENSIBLE and len(coding) >= 26:
        tag = struct.unpack('<H', coding[24:26])[0]  # begins the identifier of the coding
    if tag not in (_PCM, _FLOAT):
        return None
    width = -(-bits // 8)
    if channels < 1 or width not in ((4, 8) if tag == _FLOAT else (1, 2, 3, 4)):
        raise BadInput(f'the WAV file has {channels} channels of {bits} bits; expected 8, 16, 24 or 32 bits')
    # Some recorders write any number there.
    remarks = () if block == channels * width else ('the WAV header is wrong about the bytes of a frame',)
    block = channels * width
    if declared >= _UNKNOWN_SIZE or (declared == 0 and riff_size in (0, 0xFFFFFFFF)):
        declared = size - start
    frames = min(declared, max(size - start, 0)) // block
    header = Header(frames, rate, channels, declared // block - frames, remarks)

    def blocks(first: int, frames: int) -> Iterator[np.ndarray]:
        file.seek(start + first * block)
        most = _most_frames(channels)
        for done in range(0, frames, most):
            content = file.read(min(most, frames - done) * block)
            yield _decoded(content, width, is_float=tag == _FLOAT).reshape(-1, channels)

    return header, blocks


def _decoded(content: bytes, width: int, *, is_float: bool) -> np.ndarray:
    if is_float:
        with np.errstate(over='ignore'):  # infinities are found later
            return np.frombuffer(content, f'<f{width}').astype(np.float32)
    if width == 1:  # the only one without a sign
        return (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        wide = np.zeros((len(content) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        return wide.view('<i4')[:, 0].astype(np.float32) / 2**31
    return np.frombuffer(content, f'<i{width}').astype(np.float32) / 2 ** (8 * width - 1)


def _most_frames(channels: int) -> int:
    return max(1, min(_BLOCK, _BLOCK_VALUES // channels))


def _open_soundfile(file: BinaryIO, start: bytes) -> tuple[Header, Blocks]:
    kind = 'this coding of WAV' if start[8:] == b'WAVE' else _COMPRESSED_AUDIO.get(start[:4])
    try:
        import soundfile  # noqa: F401
    except (ImportError, OSError):  # OSError: without libsndfile
        what = kind or f'what is no WAV file (it starts with {start[:4]!r})'
        raise BadInput(f'{what} is read by soundfile; install it: {install_command("speech")}') from None
    opened = _soundfile(file, start)
    frames = opened.frames
    block = _most_frames(opened.channels)
    if frames > _UNKNOWN_FRAMES:  # a FLAC file that was written as a stream: count
        block = min(block, 256)  # the last one, which is not whole, cannot be read
        most = MOST_HOURS * 3600 * opened.samplerate // block + 1
        frames = sum(map(len, itertools.islice(_soundfile_blocks(opened, block, 0, frames), most)))
        opened = _soundfile(file, start)
    return Header(frames, opened.samplerate, opened.channels), partial(_soundfile_blocks, opened, block)


def _soundfile(file: BinaryIO, start: bytes) -> Any:
    import soundfile

    try:
        return soundfile.SoundFile(_Rewinding(file))
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: headerless formats, which go by a file's name
        what = f'{_reason(error)}; it starts with {start[:4]!r}'
        raise BadInput(f'is not audio that can be read ({what}); expected WAV, FLAC, OGG or MP3') from None


class _Rewinding:
    """A file for libsndfile that clamps seeks at its beginning: Python would print what the callback raises."""

    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        self._seek = file.seek
        self.tell = file.tell
        self.read = file.read
        self.readinto = file.readinto

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            start = self._seek(0, whence) if whence else 0
        except OSError:  # a file without an end, as in /proc
            start = 0
        return self._seek(max(start + offset, 0))


def _soundfile_blocks(opened: Any, block: int, first: int, frames: int) -> Iterator[np.ndarray]:
    import soundfile

    with opened:
        for start in range(0, frames, block):
            try:
                if first and not start:
                    opened.seek(first)
                samples = opened.read(min(block, frames - start), dtype='float32', always_2d=True)
            except soundfile.LibsndfileError as error:
                if start:
                    return
                raise BadInput(f'could not be decoded: {_reason(error)}; expected a whole file') from None
            if not len(samples):
                return
            yield samples


def _reason(error: Exception) -> str:
    said = str(getattr(error, 'error_string', '') or 'unknown format')
    return said.removeprefix('Error : ').rstrip('.')


def _mixed_down(header: Header, blocks: Iterator[np.ndarray]) -> tuple[np.ndarray, list[str]]:
    if header.seconds > MOST_HOURS * 3600 or header.frames > MOST_SAMPLES:
        raise BadInput(
            f'lasts {header.seconds / 3600:.1f} hours and has {header.frames:,} samples; expected at most {MOST_HOURS} '
            f'and {MOST_SAMPLES:,}: cut it into parts'
        )
    samples = np.empty(header.frames, np.float32)
    size = 0
    clipped = 0.0
    peak = 0.0
    not_finite = 0

    for block in blocks:
        not_finite += block.size - np.count_nonzero(np.isfinite(block))
        if not_finite:
            continue  # the rest is only counted
        peak = max(peak, float(np.max(np.abs(block), initial=0)))
        clipped += _num_clipped(block) / block.shape[1]
        samples[size : size + len(block)] = block.mean(axis=1)
        size += len(block)

    if not_finite:
        raise BadInput(f'{not_finite:,} samples are NaN or infinite; expected floats in -1..1')
    if not size:
        raise BadInput('holds no samples; expected a recording')
    samples, remarks = _in_full_scale(samples[:size], header.rate, peak=peak, clipped=clipped)
    remarks += header.remarks
    if header.missing or len(samples) < header.frames:
        remarks.insert(0, 'cut off or damaged: the header promises more samples')
    return samples, remarks


def _in_full_scale(samples: np.ndarray, rate: int, *, peak: float, clipped: float) -> tuple[np.ndarray, list[str]]:
    """Samples as float32, divided by a `peak` above 1, and remarks; `clipped` is a mean over channels."""
    remarks = []
    if peak > 1:
        samples = samples / peak
        remarks.append('scaled down: the samples exceeded full scale')
    elif clipped > len(samples) / 1000:
        remarks.append('clipped: more than 0.1 % of the samples are at full scale')
    if max(np.max(samples, initial=0), -np.min(samples, initial=0)) < SILENCE:  # no copy, as by np.abs, of up to 1 GB
        remarks.append('silent: nothing above -80 dB of full scale')
    if len(samples) < 0.02 * rate:  # too short for any sound of speech
        remarks.append('shorter than 20 ms')
    return samples.astype(np.float32, copy=False), remarks


def _num_clipped(block: np.ndarray) -> int:
    """How many samples [T, ...] at full scale follow an equal one."""
    at_top = np.abs(block) >= 0.99
    return int(np.count_nonzero(at_top[1:] & (block[1:] == block[:-1]))) if at_top.any() else 0

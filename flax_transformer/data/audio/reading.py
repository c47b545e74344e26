"""A recording as samples: any file that WAV or libsndfile knows, resampled and mixed down, with remarks."""

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.installing import install_command
from flax_transformer.data.lines import no_such_file

from .archive import Source
from .wav import Header, Wav, decoded, read_wav_header

MOST_HOURS = 4  # a recording is read whole: 0.9 GB at 16 kHz, and as much while it is resampled
MOST_SAMPLES = 1 << 28  # a channel of so many takes 1.1 GB; 4 hours at up to 18 kHz, 93 minutes at 48 kHz
RATES = range(1_000, 768_001)  # Hz
SILENCE = 1e-4  # peak; -80 dB of full scale
SHORTEST = 0.02  # seconds; less is too short for any sound of speech
_BLOCK = 1 << 12  # frames decoded at a time; damage loses up to this many before it
_BLOCK_VALUES = 1 << 18  # fewer frames if they have more values
_UNKNOWN_FRAMES = 1 << 40
_COMPRESSED_AUDIO = {b'fLaC': 'FLAC', b'OggS': 'OGG', b'ID3\x02': 'MP3', b'ID3\x03': 'MP3', b'ID3\x04': 'MP3'}


class Audio(NamedTuple):
    """A recording, mono."""

    samples: np.ndarray  # float32 [T], in -1..1
    # What was done and what is odd, each worded the same for every recording, so that they can be counted.
    remarks: tuple[str, ...]


def read_audio(
    file: Path | str | Source | BinaryIO,
    rate: int,
    *,
    name: str = '',
    segment: tuple[float, float] | None = None,
) -> Audio:
    """The samples of a recording at `rate` Hz, and remarks.

    WAV of any rate, width and number of channels; by soundfile where it is installed, FLAC, OGG, MP3 and more. Channels
    are averaged. A file that was cut is read as far as it goes, with a remark; so are silent and clipped ones.

    `name` is what messages call an open file. `segment`, its beginning and length in seconds, is read alone. Raises
    BadInput, in one line with the name, for a file that is missing, empty, damaged, not audio, longer than MOST_HOURS
    or MOST_SAMPLES, and for samples that are not finite.
    """
    if file == '':  # a Path of it would be the folder
        raise BadInput("got the name '' (empty); expected a recording")
    with _opened(file, name) as (opened, name):
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


def read_header(file: Path | Source | BinaryIO, *, name: str = '') -> Header:
    """What the header says, without decoding the samples. Raises BadInput as `read_audio` does."""
    with _opened(file, name) as (opened, name):
        return _open_audio(opened)[0]


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Samples [T] at another rate, [ceil(T * wanted / rate)], by a polyphase anti-aliasing filter."""
    if rate == wanted:
        return samples
    from scipy.signal import resample_poly

    divisor = gcd(rate, wanted)
    return resample_poly(samples, wanted // divisor, rate // divisor).astype(np.float32)


@contextlib.contextmanager
def _opened(file: Path | str | Source | BinaryIO, name: str) -> Iterator[tuple[BinaryIO, str]]:
    """The file, which can seek, and its name; errors from inside get the name."""
    if isinstance(file, str | Path):
        file = Source(Path(file), str(file))
    name = name or str(getattr(file, 'name', file))
    try:
        with contextlib.ExitStack() as stack:
            if isinstance(file, Source):
                opened = stack.enter_context(file.open())
            else:
                opened = file if file.seekable() else io.BytesIO(file.read())
            yield opened, name
    except FileNotFoundError:
        raise BadInput(no_such_file(file.path)) from None
    except OSError as error:
        raise BadInput(f'{name} could not be read: {error.strerror or error}') from None
    except BadInput as error:
        raise BadInput(f'{name}: {error}') from None
    except UserError as error:  # names the file
        raise BadInput(str(error)) from None


Blocks = Callable[[int, int], Iterator[np.ndarray]]  # (first frame, count) -> samples [frames, channels]


def _open_audio(file: BinaryIO) -> tuple[Header, Blocks]:
    """The header, and what reads the samples; raises BadInput without the name."""
    file.seek(0)
    start = file.read(12)
    if not start:
        raise BadInput('the file is empty; expected a recording')
    wav = None
    if start[:4] in (b'RIFF', b'RF64') and start[8:] == b'WAVE':
        wav = read_wav_header(file)
    if wav is not None:
        header = wav.header
        blocks = partial(_wav_blocks, file, wav)
    else:
        header, blocks = _open_soundfile(file, start)
    if header.rate not in RATES:
        raise BadInput(f'the header says {header.rate:,} Hz; expected {RATES[0]:,} to {RATES[-1]:,}')
    if not header.frames:
        raise BadInput('holds no samples; expected a recording')
    return header, blocks


def _wav_blocks(file: BinaryIO, wav: Wav, first: int, frames: int) -> Iterator[np.ndarray]:
    channels = wav.header.channels
    size = channels * wav.width
    file.seek(wav.start + first * size)
    most = _most_frames(channels)
    for done in range(0, frames, most):
        yield decoded(file.read(min(most, frames - done) * size), wav)


def _most_frames(channels: int) -> int:
    """How many frames are decoded at a time."""
    return max(1, min(_BLOCK, _BLOCK_VALUES // channels))


def _open_soundfile(file: BinaryIO, start: bytes) -> tuple[Header, Blocks]:
    kind = 'this coding of WAV' if start[8:] == b'WAVE' else _COMPRESSED_AUDIO.get(start[:4])
    try:
        import soundfile  # noqa: F401
    except (ImportError, OSError):  # OSError: without libsndfile
        raise BadInput(
            f'{kind} is read by soundfile; install it: {install_command("speech")}'
            if kind
            else f'is no WAV file (it starts with {start[:4]!r}); for other formats: {install_command("speech")}'
        ) from None
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
        raise BadInput(
            f'is not audio that can be read ({_reason(error)}; it starts with {start[:4]!r}); expected WAV, FLAC, OGG '
            'or MP3'
        ) from None


class _Rewinding:
    """A file for libsndfile; clamps seeks at its beginning: Python would print an exception raised in the callback."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tell = file.tell
        self.read = file.read
        self.readinto = file.readinto
        file.seek(0, io.SEEK_END)  # fails here, not in the callback, for what is no file of bytes
        file.seek(0)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = 0 if whence == io.SEEK_SET else self._file.seek(0, whence)
        return self._file.seek(max(start + offset, 0))


def _soundfile_blocks(opened: Any, block: int, first: int, frames: int) -> Iterator[np.ndarray]:
    """The samples from a frame on, up to where the file is damaged. Raises BadInput if that is the first of them."""
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
    """What libsndfile says."""
    said = str(getattr(error, 'error_string', '') or 'unknown format')
    return said.removeprefix('Error : ').rstrip('.')


def _mixed_down(header: Header, blocks: Iterator[np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """The mean of the channels [T], and what is odd about the samples."""
    if header.seconds > MOST_HOURS * 3600:
        raise BadInput(f'lasts {header.seconds / 3600:.1f} hours; expected at most {MOST_HOURS}: cut it into parts')
    if header.frames > MOST_SAMPLES:
        raise BadInput(
            f'holds {header.frames:,} samples at {header.rate:,} Hz; expected at most {MOST_SAMPLES:,}: cut it into '
            'parts, or resample it to 16,000 Hz'
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
        clipped += num_clipped(block) / block.shape[1]
        wide = np.float64 if peak > 1 else np.float32  # the sum of huge channels would overflow
        samples[size : size + len(block)] = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=wide)
        size += len(block)
    if not_finite:
        raise BadInput(f'{not_finite:,} samples are NaN or infinite; expected floats in -1..1: write the file again')
    samples = samples[:size]
    if not size:
        raise BadInput('holds no samples; expected a recording')
    samples, remarks = in_full_scale(samples, header.rate, peak=peak, clipped=clipped)
    remarks += header.remarks
    if header.missing or len(samples) < header.frames:
        remarks.insert(0, 'cut off or damaged: the header promises more samples')
    return samples, remarks


def checked_samples(samples: np.ndarray) -> np.ndarray:
    """One channel of samples [T] as floats. Raises BadInput if they are no mono sound, or not finite."""
    samples = np.asarray(samples)
    if samples.ndim != 1 or samples.dtype not in (np.int16, np.float32, np.float64):
        raise BadInput(
            f'samples of shape {samples.shape} and type {samples.dtype}: expected one channel, [T], of float32 or '
            'float64 in -1..1, or int16'
        )
    if samples.dtype == np.int16:
        return samples.astype(np.float32) / 32768
    if count := int(samples.size - np.isfinite(samples).sum()):
        raise BadInput(f'{count:,} samples are NaN or infinite: expected numbers in -1..1')
    return samples


def in_full_scale(samples: np.ndarray, rate: int, *, peak: float, clipped: float) -> tuple[np.ndarray, list[str]]:
    """Samples [T] as float32, divided by `peak` if that is above 1, and remarks about level and length.

    `peak` is the highest, and `clipped` the mean number (see `num_clipped`), of the channels that were mixed.
    """
    remarks = []
    if peak > 1:
        samples = samples / peak
        remarks.append('scaled down: the samples exceeded full scale')
    elif clipped > len(samples) / 1000:
        remarks.append('clipped: more than 0.1 % of the samples are at full scale')
    if max(np.max(samples, initial=0), -np.min(samples, initial=0)) < SILENCE:
        remarks.append('silent: nothing above -80 dB of full scale')
    if len(samples) < SHORTEST * rate:
        remarks.append(f'shorter than {1000 * SHORTEST:g} ms')
    return samples.astype(np.float32, copy=False), remarks


def num_clipped(block: np.ndarray) -> int:
    """How many samples [T, ...] at full scale follow an equal one."""
    at_top = np.abs(block) >= 0.99
    return int(np.count_nonzero(at_top[1:] & (block[1:] == block[:-1]))) if at_top.any() else 0

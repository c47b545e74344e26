"""Recordings of any rate, width, format and number of channels come out as the same samples, from a pipe too."""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from wav_files import chunk, tone, wav_bytes

from flax_transformer.common.errors import BadInput
from flax_transformer.data.audio.reading import Audio, Source, pcm_chunks, read_audio, read_header

TONE = tone()


def source(content: bytes) -> Source:
    return Source(Path(), 'a.wav', content=content)


def read(content: bytes, rate: int = 8000) -> Audio:
    return read_audio(source(content), rate)


@pytest.mark.parametrize(('width', 'is_float'), [(1, False), (2, False), (3, False), (4, False), (4, True), (8, True)])
@pytest.mark.parametrize('is_extensible', [False, True])
def test_every_width_has_the_same_samples(width: int, is_float: bool, is_extensible: bool) -> None:
    samples, remarks = read(wav_bytes(TONE, width=width, is_float=is_float, is_extensible=is_extensible))
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, TONE, atol=1 / 127 if width == 1 else 2**-15)
    assert remarks == ()


@pytest.mark.parametrize(('form', 'subtype', 'tolerance'), [
    ('FLAC', 'PCM_16', 1e-4), ('OGG', 'VORBIS', 0.1), ('WAV', 'ULAW', 0.02), ('WAV', 'PCM_24', 1e-6),
    ('RF64', 'PCM_16', 1e-4), ('AIFF', 'PCM_16', 1e-4),
])  # fmt: skip
def test_formats_of_soundfile_are_read(form: str, subtype: str, tolerance: float) -> None:
    soundfile = pytest.importorskip('soundfile')
    file = io.BytesIO()
    soundfile.write(file, np.stack([TONE, TONE], axis=1), 8000, format=form, subtype=subtype)
    samples, remarks = read(file.getvalue())
    np.testing.assert_allclose(samples, TONE, atol=tolerance)
    assert remarks == ('mixed down from 2 channels',)
    assert read_header(source(file.getvalue()))[:3] == (4000, 8000, 2)


@pytest.mark.parametrize('rate', [11025, 16000, 96000])
def test_every_rate_has_the_same_tone(rate: int) -> None:
    samples, remarks = read(wav_bytes(tone(1.0, rate), rate), 16000)
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(16000, abs=1)
    middle = slice(1000, 15000)  # a filter has no samples before the beginning
    np.testing.assert_allclose(samples[middle], tone(1.0, 16000)[middle], atol=5e-3)
    assert remarks == (() if rate == 16000 else (f'resampled from {rate:,} to 16,000 Hz',))


def test_unknown_chunks_and_odd_sizes_are_passed_over() -> None:
    before = chunk(b'LIST', b'INFOISFT' + b'abc') + chunk(b'junk', b'12345')
    np.testing.assert_array_equal(read(wav_bytes(TONE, before=before)).samples, read(wav_bytes(TONE)).samples)
    after = wav_bytes(TONE) + chunk(b'LIST', b'INFO')
    assert len(read(after).samples) == len(TONE)


def test_a_recorder_that_wrote_into_a_pipe_knows_no_size() -> None:
    samples, remarks = read(wav_bytes(TONE, declared=0xFFFFFFFF))
    assert len(samples) == len(TONE)
    assert remarks == ()
    zero = bytearray(wav_bytes(TONE, declared=0))
    zero[4:8] = bytes(4)
    assert len(read(bytes(zero)).samples) == len(TONE)


def test_a_flac_stream_of_unknown_length_is_counted() -> None:
    soundfile = pytest.importorskip('soundfile')
    file = io.BytesIO()
    soundfile.write(file, tone(4.0), 8000, format='FLAC')
    content = bytearray(file.getvalue())
    content[21] &= 0xF0  # the number of samples, 36 bits
    content[22:26] = bytes(4)
    header = read_header(source(bytes(content)))
    assert 32_000 - 256 <= header.frames <= 32_000
    assert len(read(bytes(content)).samples) == header.frames


def test_a_damaged_flac_file_is_read_up_to_the_damage() -> None:
    soundfile = pytest.importorskip('soundfile')
    file = io.BytesIO()
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 40_000).astype(np.float32)
    soundfile.write(file, noise, 8000, format='FLAC')
    samples, remarks = read(file.getvalue()[: len(file.getvalue()) // 2])
    assert 10_000 < len(samples) < 20_000
    np.testing.assert_allclose(samples, noise[: len(samples)], atol=1e-4)
    assert remarks == ('cut off or damaged: the header promises more samples',)


def test_without_soundfile_wav_is_read_and_flac_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'soundfile', None)
    assert len(read(wav_bytes(TONE)).samples) == 4000
    with pytest.raises(BadInput, match=r'a.wav: FLAC is read by soundfile'):
        read(b'fLaC' + bytes(100))
    with pytest.raises(BadInput, match=r"a.wav: what is no WAV file \(it starts with b'\\x00\\x00"):
        read(bytes(100))


SAMPLES = np.random.default_rng(0).integers(-(2**15), 2**15, 5000).astype('<i2')


class Pipe:
    """A stream that hands out so many bytes at a time."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self.file, self.sizes = io.BytesIO(content), sizes

    def read1(self, most: int) -> bytes:
        return self.file.read(min(most, self.sizes.pop(0) if self.sizes else most))


@pytest.mark.parametrize('sizes', [[1, 1, 1, 2, 3], [333] * 99])
def test_any_cut_has_the_same_samples(sizes: list[int]) -> None:
    chunks = list(pcm_chunks(Pipe(SAMPLES.tobytes(), sizes)))
    assert all(len(chunk) and chunk.dtype == np.float32 for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate(chunks), SAMPLES.astype(np.float32) / 32768)


def test_half_a_sample_at_the_end_is_dropped() -> None:
    assert [len(chunk) for chunk in pcm_chunks(io.BytesIO(SAMPLES[:3].tobytes()[:-1]))] == [2]


def test_what_has_come_is_passed_on_without_waiting_for_more() -> None:
    reader, writer = os.pipe()
    with open(reader, 'rb') as stream:
        chunks = pcm_chunks(stream)
        for size in (1, 80, 5):
            os.write(writer, SAMPLES[:size].tobytes())
            np.testing.assert_array_equal(next(chunks), SAMPLES[:size].astype(np.float32) / 32768)
        os.close(writer)
        assert list(chunks) == []

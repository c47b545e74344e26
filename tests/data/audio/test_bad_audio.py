"""Bad recordings: one line that names the file and the reason, or samples with a remark."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from wav_files import chunk, tone, wav_bytes

from flax_transformer.common.errors import BadInput
from flax_transformer.data.audio.reading import Audio, Source, read_audio

TONE = tone()
FMT = wav_bytes(TONE)[12:36]


def read(content: bytes) -> Audio:
    return read_audio(Source(Path(), 'a.wav', content=content), 8000)


def with_nan(count: int) -> np.ndarray:
    samples = TONE.copy()
    samples[7 : 7 + count] = np.nan
    samples[0] = np.inf
    return samples


REFUSED = {
    'empty': (lambda: b'', 'the file is empty'),
    'text': (lambda: b'Dear user,\n' * 9, "b'Dear'"),
    'cut in the header': (lambda: wav_bytes(TONE)[:30], 'its chunk fmt is too short'),
    'samples before fmt': (lambda: chunk(b'RIFF', b'WAVE' + chunk(b'data', bytes(100)) + FMT), 'fmt'),
    '5 bytes a sample': (lambda: wav_bytes(TONE, width=5), '1 channels of 40 bits'),
    'rate 0': (lambda: wav_bytes(TONE, rate=0), 'the header says 0 Hz'),
    'NaN': (lambda: wav_bytes(with_nan(3), width=4, is_float=True), '4 samples are NaN or infinite'),
    'five hours': (
        lambda: wav_bytes(TONE[:1], rate=1000, width=1, declared=18_000_001) + bytes(18_000_000),
        'lasts 5.0 hours',
    ),
}  # fmt: skip


@pytest.mark.parametrize('case', REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(case: str) -> None:
    make, message = REFUSED[case]
    if case == 'text':
        pytest.importorskip('soundfile')
    with pytest.raises(BadInput) as caught:
        read(make())
    assert str(caught.value).startswith('a.wav: ')
    assert message in str(caught.value)


CLIPPED = np.clip(4 * TONE, -1, 1)
FLAGGED = {
    'one sample': (lambda: wav_bytes(TONE[5:6]), 1, 'shorter than 20 ms'),
    'opposite channels': (lambda: wav_bytes(np.stack([TONE, -TONE], axis=1), width=4), 4000, 'silent: '),
    'clipped': (lambda: wav_bytes(CLIPPED), 4000, 'clipped'),
    'floats too loud': (lambda: wav_bytes(90 * TONE, width=4, is_float=True), 4000, 'scaled down: '),
    'cut off': (lambda: wav_bytes(TONE)[:-1001], 3499, 'cut off'),
    '96 kHz, 24 bits, 5.1': (
        lambda: wav_bytes(np.stack([tone(0.5, 96_000)] * 6, axis=1), 96_000, width=3), 4000, 'mixed down from 6 chan'
    ),
}  # fmt: skip


@pytest.mark.parametrize('case', FLAGGED)
def test_what_is_odd_is_read_with_a_remark(case: str) -> None:
    make, length, remark = FLAGGED[case]
    samples, remarks = read(make())
    assert len(samples) == length
    assert samples.dtype == np.float32
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1
    assert any(each.startswith(remark) for each in remarks), remarks


def test_a_sound_recording_has_no_remarks() -> None:
    assert read(wav_bytes(TONE)).remarks == ()
    assert read(wav_bytes(1.99 * TONE)).remarks == (), 'full scale, reached by a sine, is not clipped'
    loud = np.where(np.arange(len(TONE)) < 4, 1, TONE)  # 3 of 4,000 samples follow an equal one
    assert read(wav_bytes(np.stack([loud, loud], axis=1))).remarks == ('mixed down from 2 channels',)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda path: None, r'a.wav does not exist'),
        (Path.mkdir, r'a.wav is a folder'),
        (os.mkfifo, r'a.wav is a FIFO'),
        (lambda path: path.symlink_to('/dev/zero'), r'a.wav is a device'),
    ],
)
def test_a_path_that_is_no_file_is_named(make: Callable, message: str, tmp_path: Path) -> None:
    make(tmp_path / 'a.wav')
    with pytest.raises(BadInput, match=message):
        read_audio(tmp_path / 'a.wav', 8000)


def test_damage_anywhere_gives_samples_or_one_line() -> None:
    """Each byte of the header, and files cut at each length up to the samples."""
    whole = wav_bytes(TONE[:400], before=chunk(b'LIST', b'INFO'))
    damaged = [whole[:size] for size in range(60)]
    damaged += [whole[:at] + bytes([value]) + whole[at + 1 :] for at in range(56) for value in (0, 1, 127, 255)]
    lines = []
    for content in damaged:
        try:
            samples = read(content).samples
        except BadInput as error:
            lines.append(str(error))
        else:
            assert len(samples) >= 1
            assert np.isfinite(samples).all()
    assert len(lines) > 50
    assert not any('\n' in line for line in lines)

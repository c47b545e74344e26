"""`flax-transformer detect`: recordings and streams in, a line for each hit out, one message for what is broken."""

import functools
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile
from tiny_trigger_word import RATE

from flax_transformer.cli import main
from flax_transformer.data.audio.corpus import generated
from flax_transformer.tasks.trigger_word.detector import Detector

Call = Callable[..., tuple[int, list[str], str]]


@pytest.fixture(scope='module')
def recording() -> np.ndarray:
    """Melodies of the test split, a third of them rising, int16."""
    sounds = [sound for sound, *_ in generated('melodies:test', RATE)][:12]
    gap = np.zeros(RATE // 2, np.float32)
    return (np.concatenate([part for sound in sounds for part in (sound, gap)]) * 32767).astype(np.int16)


@pytest.fixture(scope='module')
def from_run() -> Callable[..., Detector]:
    """Loads a detector once: a new one would be compiled again."""
    return functools.cache(Detector.from_run)


@pytest.fixture
def call(tiny_detector: Path, from_run: Callable[..., Detector], monkeypatch, capsys) -> Call:
    monkeypatch.setattr(Detector, 'from_run', from_run)

    def run(*arguments: object, stream: bytes = b'', options: tuple[str, ...] = ()) -> tuple[int, list[str], str]:
        monkeypatch.setattr('sys.stdin', io.TextIOWrapper(io.BytesIO(stream)))
        code = main(['detect', str(tiny_detector), *map(str, arguments), '--threshold', '0.4', *options])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run


def test_a_file_and_a_stream_of_its_samples_have_the_same_hits(
    call: Call, recording: np.ndarray, tmp_path: Path
) -> None:
    wavfile.write(tmp_path / 'a.wav', RATE, recording)
    code, lines, _ = call(tmp_path / 'a.wav')
    assert code == 0
    assert len(lines) >= 3
    seconds, confidence = map(float, lines[0].split('\t'))
    assert 0 < seconds < len(recording) / RATE + 0.5
    assert 0.4 <= confidence <= 1
    stream = recording.astype('<i2').tobytes()
    code, of_stream, err = call('-', stream=stream + b'\x00')  # half a sample more
    assert (code, [line.split()[0] for line in of_stream]) == (0, [line.split()[0] for line in lines])
    assert '4,000 Hz' in err


def test_several_files_are_named_and_a_broken_one_is_one_message(
    call: Call, recording: np.ndarray, tmp_path: Path
) -> None:
    good, bad, empty = (tmp_path / name for name in ('a b.wav', 'bad.wav', 'empty.wav'))
    wavfile.write(good, RATE, recording)
    bad.write_bytes(b'no sound at all')
    empty.write_bytes(b'')
    code, lines, err = call(bad, good, empty, tmp_path / 'missing.wav', good)
    assert code == 2
    assert {line.split('\t')[0] for line in lines} == {str(good)}
    assert len(lines) % 2 == 0
    messages = [line for line in err.splitlines() if 'clipped' not in line]
    assert [str(file) in line for file, line in zip((bad, empty, 'missing.wav'), messages, strict=True)] == [
        True
    ] * 3, err
    _, lines, _ = call(good, options=('--format', 'jsonl'))
    assert {tuple(json.loads(line)) for line in lines} == {('file', 'seconds', 'confidence')}
    assert json.loads(lines[0])['file'] == str(good)


@pytest.mark.parametrize(
    ('arguments', 'stream', 'message'),
    [
        ((), b'', 'got no recording'),
        (('-', 'a.wav'), b'', '- alone'),
        (('-',), b'RIFF\x00\x00\x00\x00WAVE', 'starts as a WAV file does'),
    ],
)
def test_mistakes_are_one_message(call: Call, arguments: tuple[str, ...], stream: bytes, message: str) -> None:
    code, lines, err = call(*arguments, stream=stream)
    assert (code, lines) == (2, [])
    assert message in err


def test_a_stream_of_nothing_has_no_hits(call: Call) -> None:
    for stream, count in ((b'', 0), (b'\x00', 0), (b'\x00\x01' * 3, 3)):
        code, lines, err = call('-', stream=stream)
        assert (code, lines) == (0, [])
        assert f' {count} samples' in err
        assert ('a byte is left over' in err) == len(stream) % 2

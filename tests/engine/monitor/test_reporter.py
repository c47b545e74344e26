"""What a run tells, and what is read back."""

import contextlib
import fcntl
import json
import os
import re
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loop_doubles import TRAIN

from flax_transformer.engine.monitor.progress_bar import showing
from flax_transformer.engine.monitor.reporter import METRICS_FILE, Reporter, read_metrics


def test_a_log_file_gets_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(tmp_path, steps=10, first_step=0) as reporter:
        reporter.advance(5)
        reporter.phase('evaluating')
        reporter.train(5, {'epoch': 3.24} | TRAIN)
        reporter.evaluation(5, {'loss': 1.5}, seconds=3.0)
    text = capsys.readouterr().err
    assert text.replace('\n', '').isprintable()
    lines = text.splitlines()
    assert lines[0].startswith('step 5/10 epoch 3.2 loss 2 perplexity 7.4 tokens/s 1,234 data wait 0% elapsed 0:0')
    assert lines[1] == 'step 5 validation loss 1.5'
    assert len(lines) == 2
    records = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert [(record['kind'], record['step'], record['loss']) for record in records] == [
        ('train', 5, 2.0),
        ('validation', 5, 1.5),
    ]
    assert (records[0]['epoch'], records[1]['seconds']) == (3.24, 3.0)


def test_a_long_file_of_metrics_is_cut_at_its_end_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, line = tmp_path / METRICS_FILE, '{"kind": "train", "step": %d, "loss": 1.0}\n'
    file.write_text(''.join(line % step for step in range(100)))
    monkeypatch.setattr('flax_transformer.engine.monitor.reporter._MOST_METRICS', 1000)
    monkeypatch.setattr('flax_transformer.engine.monitor.reporter._LAST', 1000, raising=False)
    with Reporter(tmp_path, steps=200, first_step=90):
        pass
    assert file.read_text() == ''.join(line % step for step in range(91))


def test_a_log_on_a_full_disk_does_not_stop_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `train > log 2>&1`, where the log is next to the run."""

    def refuse(text: str) -> None:
        raise OSError(28, 'No space left on device')

    with Reporter(tmp_path, steps=10, first_step=0) as reporter:
        monkeypatch.setattr('sys.stderr.write', refuse)
        reporter.train(5, TRAIN)
        reporter.say('more')
    assert len((tmp_path / METRICS_FILE).read_text().splitlines()) == 1


def test_much_waiting_for_data_is_said_when_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(tmp_path, steps=60, first_step=0) as reporter:
        for step, wait in ((10, 0.05), (20, 0.06), (30, 0.5), (40, 0.01), (50, 0.31)):
            reporter.train(step, TRAIN | {'data_wait': wait})
    warnings = [line for line in capsys.readouterr().err.splitlines() if 'waiting for data' in line]
    assert [line.split(' of')[0] for line in warnings] == ['step 20: 6%', 'step 50: 31%']
    with Reporter(tmp_path, steps=60, first_step=0, reads_data=False) as reporter:
        reporter.train(10, TRAIN | {'data_wait': 0.5})
    made = capsys.readouterr().err.splitlines()[0]
    assert ('disk' in warnings[0], 'waiting for data' in made, 'disk' in made) == (True, True, False)


def test_steps_that_were_done_twice_are_read_once_and_a_line_cut_by_a_kill_not_at_all(tmp_path: Path) -> None:
    """A run that was killed and went on from its last checkpoint reports the steps between them again."""
    for first, losses in ((0, {10: 3.0, 20: 2.0}), (10, {20: 2.5, 30: 1.0})):
        with Reporter(tmp_path, steps=30, first_step=first) as reporter:
            for step, loss in losses.items():
                reporter.train(step, TRAIN | {'loss': loss})
        with (tmp_path / METRICS_FILE).open('a') as file:
            file.write('{"kind": "train", "st')
    assert [(record['step'], record['loss']) for record in read_metrics(tmp_path)] == [(10, 3.0), (20, 2.5), (30, 1.0)]
    assert len((tmp_path / METRICS_FILE).read_text().splitlines()) == 4


def events(folder: Path) -> list[Any]:
    """The events of a run's board, each read with its checksums, as TensorBoard does."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    found = []
    for file in sorted((folder / 'tensorboard').iterdir(), key=lambda file: int(file.name.rpartition('.')[2])):
        data = file.read_bytes()
        while data:
            length, crc = struct.unpack('<QI', data[:12])
            assert crc == masked_crc32c(data[:8])
            event, crc = data[12 : 12 + length], data[12 + length : 16 + length]
            assert struct.unpack('<I', crc)[0] == masked_crc32c(event)
            found.append(Event.FromString(event))
            data = data[16 + length :]
    return found


def test_tensorboard_gets_scalars_texts_and_pictures(tmp_path: Path) -> None:
    png = b'\x89PNG\r\n\x1a\n' + struct.pack('>I4sII', 13, b'IHDR', 640, 480) + b'the rest'
    with Reporter(tmp_path, steps=20, first_step=0) as reporter:
        reporter.train(5, TRAIN)
        reporter.evaluation(5, {'loss': 1.5, 'bleu_signature': 'nrefs:1'}, seconds=3.0)
        reporter.sample(5, 1, source='eins', reference='one', translation='won')
        reporter.picture(5, 'attention', png)
    with Reporter(tmp_path, steps=20, first_step=4) as reporter:
        reporter.train(10, TRAIN)
    first, *rest = events(tmp_path)
    assert first.file_version == 'brain.Event:2'
    values = {(event.step, value.tag): value for event in rest for value in event.summary.value}
    assert values[5, 'train/loss'].simple_value == 2.0
    assert values[5, 'validation/loss'].simple_value == 1.5
    assert values[10, 'train/loss'].simple_value == 2.0
    assert (5, 'validation/bleu_signature') not in values
    assert values[5, 'sample/1/text_summary'].tensor.string_val == [
        b'source: eins\n\nreference: one\n\ntranslation: won'
    ]
    image = values[5, 'attention'].image
    assert (image.width, image.height, image.encoded_image_string) == (640, 480, png)
    # What the first start wrote of step 5 and later is purged by the second, which goes on from step 4.
    (start,) = (event for event in rest if event.session_log.status)
    assert (start.step, start.session_log.status) == (5, start.session_log.START)


def test_what_the_devices_could_do_is_said_where_it_is_known(tmp_path: Path, capsys) -> None:
    """100 slots a step of 2 s; 30 of 120 FLOP/s."""
    known = {'amounts': {'target_slots': 100}, 'flops_per_step': 60.0, 'peak_flops': 120.0}
    with Reporter(tmp_path, steps=10, first_step=0, **known) as reporter:
        reporter.train(5, TRAIN | {'seconds_per_step': 2.0, 'loss_smoothed': 2.25})
    line = capsys.readouterr().err
    assert 'loss 2 smoothed 2.25 perplexity 7.4 tokens/s 1,234 slots/s 50 matrix peak 25% data wait 0%' in line
    (record,) = read_metrics(tmp_path)
    assert (record['target_slots_per_second'], record['matrix_peak']) == (50.0, 0.25)
    for unknown in ({'peak_flops': None}, {'flops_per_step': 0.0}):
        with Reporter(tmp_path, steps=10, first_step=5, **(known | unknown)) as reporter:
            reporter.train(6, TRAIN | {'seconds_per_step': 2.0})
        assert 'peak' not in capsys.readouterr().err


@contextlib.contextmanager
def terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Standard error as a terminal; what is written comes into the list at the end."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    shown: list[str] = []
    with os.fdopen(slave, 'w', encoding='utf-8') as stream:
        monkeypatch.setattr('sys.stderr', stream)
        yield shown
        stream.flush()
        os.set_blocking(master, False)
        written = b''
        with contextlib.suppress(BlockingIOError):
            while True:
                written += os.read(master, 4096)
    os.close(master)
    shown.append(written.decode())


def test_an_evaluation_that_is_made_again_is_not_reported_twice(tmp_path: Path) -> None:
    """It was reported, and training was killed before the checkpoint had its scores."""
    with Reporter(tmp_path, steps=9, first_step=0) as reporter:
        for step in (3, 6):
            reporter.evaluation(step, {'loss': 1.0}, seconds=1.0)
    for is_evaluated, expected in ((True, [3, 6]), (False, [3])):
        with Reporter(tmp_path, steps=9, first_step=6, is_evaluated=is_evaluated):
            pass
        assert [record['step'] for record in read_metrics(tmp_path)] == expected


LONG = {'epoch': 13.71, 'loss_smoothed': 2.6573, 'target_slots_per_second': 81920.0} | TRAIN


@pytest.mark.parametrize('columns', [0, 60, 80, 120, 200])
def test_a_terminal_gets_a_bar_and_records_that_fit_it(columns: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv('TERM', 'xterm')
    with terminal(columns, monkeypatch) as shown, Reporter(tmp_path, steps=300000, first_step=150000) as reporter:
        reporter.advance(150001)
        reporter.advance(150002)
        reporter.train(150002, LONG)
        reporter.phase('evaluating')
    pieces = [piece.rstrip() for piece in re.split(r'\r\n|\r', shown[0]) if piece.strip()]
    assert max(map(len, pieces)) < (columns or 80)
    assert any(piece.startswith('step 150002/300000 epoch 13.7 loss 2 ') for piece in pieces)
    bars = [piece for piece in pieces if piece.startswith(' 50% ')]
    assert bars[0].endswith(' 150000/300000')
    assert bars[1].endswith(' 150000/300000, compiling')
    assert any(', epoch 13.7' in bar for bar in bars)
    assert any(', 1,234 tokens/s' in bar for bar in bars) == (columns != 60)
    assert ' 150002/300000, evaluating' in bars[-1]
    assert re.search(r'\r +\r$', shown[0])  # the bar leaves nothing


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('TERM', 'dumb')
    with (
        terminal(80, monkeypatch) as shown,
        showing('preparing'),
        Reporter(tmp_path, steps=10, first_step=0) as reporter,
    ):
        reporter.advance(5)
        reporter.train(5, TRAIN)
    assert shown[0].startswith('step 5/10 loss 2 perplexity 7.4 tokens/s 1,234 data wait 0% elapsed')
    assert shown[0].replace('\r\n', '').isprintable()

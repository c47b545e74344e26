"""What a run tells, and what is read back."""

import json
from pathlib import Path

import pytest

from flax_transformer.reporting import METRICS_FILE, Reporter, read_metrics

TRAIN = {'loss': 2.0, 'perplexity': 7.4, 'target_tokens_per_second': 1234.0, 'data_wait': 0.004}


def test_a_log_file_gets_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(tmp_path, steps=10, first_step=0) as reporter:
        reporter.advance(5)
        reporter.train(5, TRAIN)
        reporter.evaluation(5, {'loss': 1.5})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith('step 5/10 loss 2 perplexity 7.4 tokens/s 1,234 data wait 0% elapsed 0:0')
    assert lines[1] == 'step 5 validation loss 1.5'
    assert len(lines) == 2
    records = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert [(record['kind'], record['step'], record['loss']) for record in records] == [
        ('train', 5, 2.0),
        ('validation', 5, 1.5),
    ]


def test_much_waiting_for_data_is_said_when_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(tmp_path, steps=60, first_step=0) as reporter:
        for step, wait in ((10, 0.05), (20, 0.06), (30, 0.5), (40, 0.01), (50, 0.31)):
            reporter.train(step, TRAIN | {'data_wait': wait})
    warnings = [line for line in capsys.readouterr().err.splitlines() if 'waiting for data' in line]
    assert [line.split(' of')[0] for line in warnings] == ['step 20: 6%', 'step 50: 31%']


def test_steps_that_were_done_twice_are_read_once(tmp_path: Path) -> None:
    """A run that was killed and went on from its last checkpoint reports the steps between them again."""
    for first, losses in ((0, {10: 3.0, 20: 2.0}), (10, {20: 2.5, 30: 1.0})):
        with Reporter(tmp_path, steps=30, first_step=first) as reporter:
            for step, loss in losses.items():
                reporter.train(step, TRAIN | {'loss': loss})
    assert [(record['step'], record['loss']) for record in read_metrics(tmp_path)] == [(10, 3.0), (20, 2.5), (30, 1.0)]


def test_a_line_cut_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    with Reporter(tmp_path, steps=30, first_step=0) as reporter:
        reporter.train(10, TRAIN)
    with (tmp_path / METRICS_FILE).open('a') as file:
        file.write('{"kind": "train", "st')
    with Reporter(tmp_path, steps=30, first_step=10) as reporter:
        reporter.train(20, TRAIN)
    assert [record['step'] for record in read_metrics(tmp_path)] == [10, 20]

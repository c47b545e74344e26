"""What the loop measures between two reports."""

import math
from types import SimpleNamespace

import pytest

from flax_transformer.engine.monitor.progress import MetricWindow
from flax_transformer.tasks.translation.task import TranslationTask, per_token

TASK = SimpleNamespace(counts=TranslationTask.counts, summarize=per_token)
STEP = {'loss': 10.0, 'nll': 10.0, 'target_tokens': 5.0, 'source_tokens': 5.0, 'grad_norm': 1.0, 'skipped': False}


def test_a_window_averages_over_tokens_not_steps() -> None:
    window = MetricWindow()
    for loss, tokens in ((10.0, 10.0), (60.0, 20.0)):
        window.add(STEP | {'loss': loss, 'nll': loss, 'target_tokens': tokens, 'source_tokens': tokens})
    averages = window.close(TASK)
    assert averages['loss'] == pytest.approx(70 / 30)
    assert averages['target_tokens'] == averages['source_tokens'] == 15
    assert 0 <= averages['data_wait'] <= 1


def test_a_window_gives_the_losses_of_the_corpora_that_came() -> None:
    window = MetricWindow()
    for a, tokens in ((2.0, 1.0), (10.0, 5.0)):
        window.add(STEP | {'nll/a': a, 'target_tokens/a': tokens, 'nll/b': 0.0, 'target_tokens/b': 0.0})
    averages = window.close(TASK)
    assert averages['nll/a'] == pytest.approx(12 / 6)
    assert 'nll/b' not in averages


def test_skipped_steps_do_not_enter_the_averages() -> None:
    window = MetricWindow()
    for each in (STEP, STEP | {'loss': math.nan, 'grad_norm': math.inf, 'skipped': True}, STEP):
        window.add(each)
    assert (window.skipped_in_a_row, window.skipped_in_all) == (0, 1)
    averages = window.close(TASK)
    assert (averages['loss'], averages['grad_norm'], averages['skipped_steps']) == (2.0, 1.0, 1)
    assert averages['target_tokens'] == 5.0


def test_a_restored_window_goes_on_with_sums_and_time() -> None:
    window = MetricWindow()
    window.add(STEP)
    saved = window.state()
    window.add(STEP)  # checkpoints write what was saved later, in a thread of their own
    again = MetricWindow(**saved | {'seconds': 100.0, 'waited': 25.0})
    again.add(STEP | {'loss': 20.0})
    averages = again.close(TASK)
    assert averages['loss'] == pytest.approx(3.0)
    assert averages['seconds_per_step'] == pytest.approx(50.0, rel=0.1)
    assert averages['data_wait'] == pytest.approx(0.25, rel=0.1)

"""SIGTERM and Ctrl-C: saved within a step, code 75; a second one leaves at once; and no handler stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from loop_doubles import CountingTrainer, Saved, run_loop
from toy_task import CircleConfig

from flax_transformer.cli import main
from flax_transformer.common.errors import EXIT_CODE, Interrupted
from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.preemption import stop_on_signals
from flax_transformer.engine.runs.checksums import naming_damaged
from flax_transformer.engine.task import TrainState


def test_a_deferred_signal_is_noted_and_the_handlers_come_back(capfd: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with stop_on_signals() as stop, stop.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested == 'SIGTERM'
        os.kill(os.getpid(), signal.SIGTERM)  # a scheduler may send it to the job and to each process
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
        assert caught.type is KeyboardInterrupt
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert capfd.readouterr().err == '\nSIGTERM: saving after this step; another Ctrl-C stops at once\n'


def test_a_signal_is_noted_although_nobody_reads_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends `tee`, too, in `train ... 2>&1 | tee log`."""

    def broken(number: int, text: bytes) -> None:
        raise BrokenPipeError(32, 'Broken pipe')

    with stop_on_signals() as stop, stop.deferred():
        monkeypatch.setattr(os, 'write', broken)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested == 'SIGTERM'


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_first_step_raises_where_it_arrives(number: signal.Signals) -> None:
    with stop_on_signals(), pytest.raises(Interrupted, match=rf'{number.name}: stopped; the same command goes on'):
        os.kill(os.getpid(), number)


def test_an_interruption_of_which_a_library_makes_an_error_is_one() -> None:
    """As Orbax does while it reads; so the checkpoint is not called damaged."""

    def read() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException as error:
            raise Exception('error while reading') from error

    with pytest.raises(KeyboardInterrupt), naming_damaged('a checkpoint'):
        read()
    with pytest.raises(Interrupted), stop_on_signals():
        read()


def test_an_ignored_signal_stays_ignored() -> None:
    """As Ctrl-C is for a job that a shell has put into the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_on_signals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.requested is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_a_thread_nothing_is_installed() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def inside() -> None:
        with stop_on_signals(exit_at_second=True):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_step_under_way_is_saved_and_no_other_is_made() -> None:
    saved = Saved()
    with pytest.raises(Interrupted, match=r'SIGTERM: stopped after step 6, which is saved; the same command goes on'):
        run_loop(CountingTrainer(steps=9, checkpoint_every=4, stop_at=6), saved)
    assert [(step, is_last) for step, (_, _, is_last) in saved.items()] == [(4, False), (6, True)]
    assert saved[6][1]['window']['steps'] == 6  # the metrics since the last report go on, too


def test_a_stop_at_a_checkpoint_saves_once_and_one_at_the_end_is_the_end() -> None:
    saved = Saved()
    with pytest.raises(Interrupted):
        run_loop(CountingTrainer(steps=9, checkpoint_every=4, stop_at=4), saved)
    assert list(saved) == [4]
    run_loop(CountingTrainer(steps=9, checkpoint_every=4, stop_at=9), saved := Saved())
    assert list(saved) == [4, 8, 9]


def test_a_signal_in_the_evaluation_saves_and_the_evaluation_is_made_up_for() -> None:
    """It may last for minutes; a scheduler waits for seconds."""

    def interrupted(_: TrainState) -> dict[str, float]:
        raise Interrupted('SIGTERM')

    saved, evaluated = Saved(), []
    with pytest.raises(Interrupted, match=r'stopped after step 3, which is saved'):
        run_loop(CountingTrainer(steps=9, evaluate_every=3, checkpoint_every=4), saved, validate=interrupted)
    assert (max(saved), saved[3][1]['evaluate']) == (3, True)
    again = CountingTrainer(steps=4)
    run_loop(again, saved, first=3, validate=lambda state: evaluated.append(state.step) or {})
    assert evaluated == [3, 4]
    assert 'evaluate' not in saved[3][1]


def test_a_stop_requested_before_an_evaluation_does_not_wait_for_it() -> None:
    saved, evaluated = Saved(), []
    validate = lambda state: evaluated.append(state.step) or {}
    with pytest.raises(Interrupted, match=r'stopped after step 9, which is saved'):
        run_loop(CountingTrainer(steps=9, stop_at=9), saved, validate=validate)
    assert (evaluated, saved[9][1]['evaluate']) == ([], True)
    run_loop(CountingTrainer(steps=9), saved, first=9, validate=validate)
    assert (evaluated, 'evaluate' in saved[9][1]) == ([9], False)


def test_several_processes_finish_an_evaluation_under_way_and_owe_one_that_was_due() -> None:
    """They evaluate together, so a signal is only noted; all stop after the step that they agree on."""

    def signaled(state: TrainState) -> dict[str, float]:
        evaluated.append(state.step)
        if state.step == 3:
            trainer.stop._handle(signal.SIGTERM, None)
        return {}

    for agreed in (5, 6):  # an evaluation is due after 6
        saved, evaluated, trainer = Saved(), [], CountingTrainer(steps=9, evaluate_every=3, checkpoint_every=8)
        trainer.stop.shared = lambda step, asked, agreed=agreed: asked if step >= agreed else None
        with pytest.raises(Interrupted, match=f'stopped after step {agreed}, which is saved'):
            run_loop(trainer, saved, validate=signaled)
        assert (evaluated, list(saved), 'evaluate' in saved[agreed][1]) == ([3], [agreed], agreed == 6)
        run_loop(CountingTrainer(steps=9, evaluate_every=3), saved, first=agreed, validate=signaled)
        assert evaluated == [3, 6, 9]


def test_the_command_ends_with_75_and_goes_on(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """In this process: the signal comes at step 7, as the scheduler would send it."""
    config = CircleConfig(training=LoopConfig(steps=12, checkpoint_every=100))
    monkeypatch.setattr('flax_transformer.cli.options.load_config', lambda name: config)
    from flax_transformer.engine.monitor.reporter import Reporter

    signal_at = {7}
    monkeypatch.setattr(Reporter, 'advance', lambda _, step: step in signal_at and os.kill(os.getpid(), signal.SIGTERM))
    assert main(['train', 'any', '--workdir', str(tmp_path / 'run')]) == EXIT_CODE == 75
    assert 'SIGTERM: stopped after step 7, which is saved' in capsys.readouterr().err
    signal_at.clear()
    assert main(['train', 'any', '--workdir', str(tmp_path / 'run')]) == 0
    assert 'going on from step 7' in capsys.readouterr().err


def test_a_second_ctrl_c_leaves_at_once_while_a_step_is_computed() -> None:
    """Python waits in C code there, which asks for signals now and then."""
    code = (
        'import jax, jax.numpy as jnp, os, signal, threading, time\n'
        'from flax_transformer.engine.preemption import stop_on_signals\n'
        'step = jax.jit(lambda x: jax.lax.while_loop(lambda x: x[0, 0] < 2, lambda x: jnp.tanh(x @ x), x))\n'
        'with stop_on_signals(exit_at_second=True) as stop, stop.deferred():\n'
        '    def send():\n'
        '        while True:\n'  # two in quick succession may be one to Python
        '            time.sleep(0.3); os.kill(os.getpid(), signal.SIGINT)\n'
        '    threading.Thread(target=send, daemon=True).start()\n'
        '    jax.device_get(step(jnp.ones((8, 8))))\n'
    )
    left = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
    assert left.returncode == 130
    assert 'stopped at once; the same command goes on from the last checkpoint' in left.stderr


def test_a_signal_that_comes_where_python_drops_exceptions_stops_all_the_same() -> None:
    """In __del__, and in JAX's callback of the garbage collector."""

    class Interrupting:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    def interrupted() -> None:
        Interrupting()
        time.sleep(5)

    with stop_on_signals(exit_at_second=True), pytest.raises(Interrupted, match='SIGINT: stopped'):
        interrupted()

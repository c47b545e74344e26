"""What is trained and scored, and what is not again."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reproduce_commands import Fake
from reproduce_events import ENTRY, TINY, trained

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import training
from benchmarks.reproduce.process import Ended, call
from benchmarks.reproduce.rows import make_rows
from benchmarks.reproduce.settings import settings_of
from benchmarks.reproduce.training import Runs, Stopped
from flax_transformer.common.errors import UserError


def test_finished_seeds_are_not_trained_and_scores_are_kept(finished_seeds: set[int], tmp_path: Path) -> None:
    fake = Fake()
    runs = Runs(TINY, tmp_path, run=fake)
    finished_seeds.add(1)
    assert command.work(runs, [ENTRY], [1, 2])
    assert [(argv[0], argv[-1][-6:]) for argv in fake.asked if argv[0] == 'train'] == [('train', 'seed-2')]
    sets = [argv[argv.index('--data.test') + 1] for argv in fake.asked if argv[0] == 'evaluate']
    assert sets == ['number_words:validation', 'number_words:test'] * 2
    finished_seeds.add(2)
    assert command.work(runs, [ENTRY], [1, 2])
    assert len(fake.asked) == 5


def test_a_run_that_has_changed_is_scored_again(finished_seeds: set[int], tmp_path: Path, monkeypatch) -> None:
    fake = Fake()
    runs = Runs(TINY, tmp_path, run=fake)
    finished_seeds.add(1)
    command.work(runs, [ENTRY], [1])
    monkeypatch.setattr(training, 'digest', lambda run: 'another')
    command.work(runs, [ENTRY], [1])
    assert len(fake.asked) == 4
    started = [event | {'settings': runs.settings.fields} for event in trained(1)]
    (row,) = make_rows(ENTRY, [*started, *runs.log.read()], runs.settings, runs.options(ENTRY.measure))
    assert row.test_scorings == 2


def test_what_one_process_scores_another_waits_for(
    finished_seeds: set[int], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fake, is_asked, may_end = Fake(), threading.Event(), threading.Event()

    def slow(argv: list[str], *, stdout: Any = None) -> Ended:
        is_asked.set()
        may_end.wait(20)
        return fake(argv, stdout=stdout)

    first, second = (
        threading.Thread(target=Runs(TINY, tmp_path, run=slow).score, args=([1], ENTRY.measure, 'test'))
        for _ in range(2)
    )
    first.start()
    assert is_asked.wait(20)
    second.start()
    second.join(0.5)
    assert second.is_alive()
    may_end.set()
    for thread in (first, second):
        thread.join(20)
    assert len(fake.asked) == 1
    assert capsys.readouterr().err.splitlines() == [
        f'waiting for the process that translates or scores in {tmp_path / TINY.name}'
    ]


def test_without_the_test_set_it_is_not_looked_at(finished_seeds: set[int], tmp_path: Path) -> None:
    finished_seeds |= {1, 2}
    fake = Fake()
    command.work(Runs(TINY, tmp_path, run=fake), [ENTRY], [1, 2], [(1, 2)], has_test=False)
    assert [argv[argv.index('--data.test') + 1] for argv in fake.asked] == ['number_words:validation'] * 3
    assert [path[-6:] for path in fake.asked[-1][1:3]] == ['seed-1', 'seed-2']


def test_a_seed_that_fails_is_noted_and_the_others_go_on(finished_seeds: set[int], tmp_path: Path) -> None:
    fake = Fake(1)
    runs = Runs(TINY, tmp_path, run=fake)
    assert not command.work(runs, [ENTRY], [1, 2], [(1, 2)])
    assert [argv[0] for argv in fake.asked] == ['train', 'train', 'evaluate', 'evaluate']
    (event,) = (each for each in runs.log.read() if each['event'] == 'trained' and each['seed'] == 1)
    assert (event['exit_code'], event['cpu_seconds']) == (1, 60)


def test_a_sigterm_is_passed_on_to_the_command() -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    ended = call(['sh', '-c', 'trap "exit 75" TERM; while :; do sleep 0.1; done'])
    assert ended.exit_code == 75
    assert ended.seconds < 20


def test_a_run_of_another_config_is_refused_and_nothing_is_noted(tmp_path: Path) -> None:
    from flax_transformer.tasks.translation.run import Run

    fake = Fake()
    runs = Runs(TINY, tmp_path, run=fake)
    config = runs.config(1)
    Run(runs.run(1)).open(replace(config, model=replace(config.model, d_ff=7)))
    with pytest.raises(UserError, match=r'model.d_ff: 7 there, \d+ here\nMove .*tiny away'):
        runs.train(1)
    # `train` would resume it: of a schedule that has ended once already, no new run has the like.
    Run(runs.run(2)).open(replace(config, seed=2, training=replace(config.training, steps=7)))
    with pytest.raises(UserError, match=r'  training.steps: 7 there, \d+ here\nMove'):
        runs.train(2)
    assert (fake.asked, runs.log.read()) == ([], [])
    Run(runs.run(3)).open(replace(config, seed=3, decoding=replace(config.decoding, beam_width=7)))
    assert runs.train(3)


def test_the_log_has_the_checksums_of_the_corpus(tmp_path: Path) -> None:
    from flax_transformer.tasks.translation.run import Run

    runs = Runs(TINY, tmp_path, run=Fake())
    listed = {'path': str(tmp_path / 'all.en'), 'bytes': 1, 'mtime_ns': 2, 'sha256': 'f00'}
    Run(runs.run(1)).open(runs.config(1))
    Run(runs.run(1)).write_data_files({'all.{lang} en-de': [listed]})
    runs.train(1)
    assert runs.log.read()[-1]['corpus'] == {'all.en': 'f00'}


def test_settings_are_what_decides_results_and_the_same_for_all_seeds(tmp_path: Path) -> None:
    config = Runs(TINY, tmp_path).config(1)
    cosmetic = replace(config, seed=2, training=replace(config.training, log_every=7))
    wider = replace(config, decoding=replace(config.decoding, beam_width=7))
    found = settings_of(config)
    assert settings_of(cosmetic) == found != settings_of(wider)
    assert 'decoding.beam_width' in found.unused_in_training
    assert not {'model.d_model', 'training.steps'} & found.unused_in_training
    moved = replace(config, data=replace(config.data, train='elsewhere'))
    assert settings_of(moved, {'pairs': 5}) == settings_of(config, {'pairs': 5}) != settings_of(config, {'pairs': 6})


def test_a_scoring_that_fails_is_noted(finished_seeds: set[int], tmp_path: Path) -> None:
    runs = Runs(TINY, tmp_path, run=Fake(2))
    finished_seeds.add(1)
    assert not command.work(runs, [ENTRY], [1])
    assert [event['event'] for event in runs.log.read()] == ['scoring', 'score failed', 'scoring', 'score']
    with pytest.raises(Stopped):
        command.work(Runs(TINY, tmp_path, run=Fake(75)), [ENTRY], [1])

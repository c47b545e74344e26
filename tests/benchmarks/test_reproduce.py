"""What `make reproduce` trains and scores, what it does not again, and what it writes."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from reproduce_fakes import ENTRY, TINY, Fake, scored, trained

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import training
from benchmarks.reproduce.log import add_to_log, read_logs
from benchmarks.reproduce.tables import TABLES, Experiment, experiments
from benchmarks.reproduce.training import Runs, call
from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError


@pytest.fixture(scope='module', autouse=True)
def configs_are_parsed_once():
    """The tables name the same experiments, and parsing each takes a while."""
    parsed: dict = {}
    parse = training.parse

    def parse_once(name, kind, argv, **rest):
        if tuple(argv) not in parsed:
            parsed[tuple(argv)] = parse(name, kind, argv, **rest)
        return parsed[tuple(argv)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, 'parse', parse_once)
        patch.setattr(training, 'environment', lambda devices: {'commit': 'abc'})
        yield


def test_finished_seeds_are_not_trained_and_scored_runs_are_not_scored_again(tmp_path: Path, monkeypatch) -> None:
    fake = Fake()
    runs = Runs(TINY, tmp_path, run=fake)
    assert command.work(runs, [ENTRY], [1, 2])
    sets = ['number_words:validation', 'number_words:test']
    done = [argv[argv.index('--data.test') + 1] if argv[0] == 'evaluate' else argv[-1][-6:] for argv in fake.asked]
    assert done == ['seed-1', *sets, 'seed-2', *sets]
    assert command.work(runs, [ENTRY], [1, 2])
    assert len(fake.asked) == 6
    monkeypatch.setattr(training, 'digest', lambda run: 'another')
    assert command.work(runs, [ENTRY], [1, 2])
    assert [argv[0] for argv in fake.asked[6:]] == ['evaluate'] * 4


def test_without_the_test_set_it_is_not_looked_at(tmp_path: Path) -> None:
    fake = Fake()
    command.work(Runs(TINY, tmp_path, run=fake), [ENTRY], [1, 2], is_ensemble=True, has_test=False)
    scorings = [argv for argv in fake.asked if argv[0] == 'evaluate']
    assert [argv[argv.index('--data.test') + 1] for argv in scorings] == ['number_words:validation'] * 3
    assert [path[-6:] for path in scorings[-1][1:3]] == ['seed-1', 'seed-2']


def test_what_fails_is_noted_and_tried_again_and_the_others_go_on(tmp_path: Path) -> None:
    fake = Fake(1, 0, 2)
    runs = Runs(TINY, tmp_path, run=fake)
    assert not command.work(runs, [ENTRY], [1, 2], is_ensemble=True)
    assert [argv[0] for argv in fake.asked] == ['train', 'train', 'evaluate', 'evaluate']
    codes = [event['exit_code'] for event in read_logs(runs.log) if event['event'] == 'trained']
    assert codes == [1, 0]
    assert command.work(runs, [ENTRY], [1, 2])
    assert [argv[0] for argv in fake.asked[4:]] == ['train', 'evaluate', 'evaluate', 'evaluate']


@pytest.mark.parametrize('codes', [(75,), (0, 75)])
def test_an_interrupted_command_ends_all_and_the_next_start_continues(codes, monkeypatch, tmp_path: Path, capsys):
    monkeypatch.setitem(TABLES, 'model', replace(TABLES['model'], entries=(ENTRY,)))
    monkeypatch.setattr(Runs.__init__, '__kwdefaults__', {'run': (fake := Fake(*codes))})
    argv = ['model', '--seeds', '1', '2', '--runs', str(tmp_path)]
    assert command.main(argv) == 75
    assert len(fake.asked) == len(codes)
    assert capsys.readouterr() == ('', 'tiny, seed 1\nstopped; the same command continues\n')
    assert command.main(argv) == 0


def test_a_sigterm_is_passed_on_to_the_command() -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    ended = call(['sh', '-c', 'trap "exit 75" TERM; while :; do sleep 0.1; done'])
    assert ended['exit_code'] == 75
    assert ended['seconds'] < 20


def test_a_run_of_another_config_is_refused_and_nothing_is_noted(tmp_path: Path) -> None:
    runs = Runs(TINY, tmp_path, run=Fake())
    assert runs.train(1)
    before = runs.log.read_bytes()
    fake = Fake()
    for fields in ('--model.d-ff 7', '--training.steps 7'):
        with pytest.raises(UserError, match=r'seed-1 is a run of another config.* Move .*tiny away'):
            Runs(replace(TINY, fields=fields), tmp_path, run=fake).train(1)
    assert (fake.asked, runs.log.read_bytes()) == ([], before)
    assert Runs(replace(TINY, fields='--decoding.beam-width 7'), tmp_path, run=fake).train(1)
    assert not fake.asked


def _text(tmp_path: Path, pairs: int) -> str:
    """A config whose training text has so many pairs, `en 1` and `de 1` the first."""
    for language in ('en', 'de'):
        (tmp_path / f'all.{language}').write_text(''.join(f'{language} {i + 1}\n' for i in range(pairs)))
    (tmp_path / 'some.json').write_text(json.dumps({'data': {'root': str(tmp_path), 'train': 'all.{lang}'}}))
    return str(tmp_path / 'some.json')


def test_a_subset_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    config, found = _text(tmp_path, 50), []
    for pairs in (5, 20):
        runs = Runs(Experiment(f'curve/{pairs}', config, pairs=pairs), tmp_path / 'runs', run=(fake := Fake()))
        assert runs.train(1)
        assert fake.asked[0][fake.asked[0].index('--data.train') + 1] == str(runs.folder / 'train.{lang}')
        found.append([(runs.folder / f'train.{language}').read_text().splitlines() for language in ('en', 'de')])
    (few, few_targets), (many, _) = found
    assert many[:5] == few != [f'en {i + 1}' for i in range(5)]
    assert few_targets == [line.replace('en', 'de') for line in few]


def _student(tmp_path: Path) -> Experiment:
    """It learns from the pair en-de and from a teacher of each direction."""
    config = _text(tmp_path, 2)
    back = Experiment('back', config, '--data.source-language de --data.target-language en')
    return Experiment('student', config, teachers=(Experiment('there', config), back))


@pytest.mark.parametrize('code', [0, 1, 75])
@pytest.mark.slow
def test_a_student_learns_from_its_corpus_and_from_what_its_teachers_translate_of_it(code, tmp_path: Path) -> None:
    fake = Fake(0, code)
    runs = Runs(_student(tmp_path), tmp_path / 'runs', run=fake)
    if code:
        with pytest.raises(KeyboardInterrupt if code == 75 else UserError):
            runs.train(3)
        assert len(fake.asked) == 2
        assert not (runs.folder / 'train.en').exists()
        fake.asked[1:] = []
    assert runs.train(3)
    assert (runs.folder / 'train.en').read_text() == 'en 1\nen 2\nen 1\nen 2\nDE 1\nDE 2\n'
    assert (runs.folder / 'train.de').read_text() == 'de 1\nde 2\nEN 1\nEN 2\nde 1\nde 2\n'
    assert [argv[0] for argv in fake.asked] == ['train', 'translate'] * 2 + ['train']


def test_the_settings_of_a_student_are_also_those_of_its_teachers(tmp_path: Path) -> None:
    student = _student(tmp_path)
    there, back = student.teachers
    settings = Runs(student, tmp_path).settings
    for teachers in ((there,), (replace(there, fields='--optimizer.learning-rate 0.5'), back)):
        assert Runs(replace(student, teachers=teachers), tmp_path).settings != settings
    assert json.loads(json.dumps(settings)) == settings
    assert 'data.train' not in settings


def test_a_name_is_a_table_or_an_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.tables_of('model') == [TABLES['model']]
    assert [[entry.name for entry in table.entries] for table in command.tables_of('tatoeba_en_de')] == [
        ['tatoeba_en_de', 'tatoeba_en_de, all references'],
        ['all pairs', 'all pairs, all references'],
    ]
    assert [table.name for table in command.tables_of('ablations/base')] == ['model', 'decoding']
    with pytest.raises(SystemExit, match='2'):
        command.main(['nonesuch'])
    assert "'nonesuch' (choose from" in capsys.readouterr().err


def test_every_experiment_and_every_row_is_its_own() -> None:
    names = [experiment.name for experiment in experiments()]
    assert len(set(names)) == len(names)
    for table in TABLES.values():
        entry_names = [entry.name for entry in table.entries]
        assert len(set(entry_names)) == len(entry_names)
        assert table.columns == 'results' or not any(entry.measure.has_test for entry in table.entries)


@pytest.mark.slow
def test_an_ablation_changes_what_its_options_name() -> None:
    base, *variants = TABLES['model'].entries
    config = Runs(base.experiment, Path('runs')).config
    for entry in variants:
        options = entry.experiment.fields.split()
        named = {option.removeprefix('--').replace('-', '_') for option in options if '--' in option}
        changed = set(changed_fields(config, Runs(entry.experiment, Path('runs')).config))
        assert changed, entry.name
        assert changed <= named


def test_the_document_is_what_the_kept_logs_give_and_a_new_log_is_added(monkeypatch, tmp_path: Path, capsys) -> None:
    document = tmp_path / 'RESULTS.md'
    document.write_bytes((ROOT / 'RESULTS.md').read_bytes())
    monkeypatch.setattr(command, 'RESULTS_FILE', document)
    runs = ['--runs', str(tmp_path / 'runs'), '--only-print', '--write']
    assert command.main([*TABLES, *runs]) == 0
    assert document.read_text(encoding='utf-8') == (ROOT / 'RESULTS.md').read_text(encoding='utf-8')
    kept = (command.SCORES / 'ablations' / 'half.jsonl').read_text()
    monkeypatch.setattr(command, 'SCORES', tmp_path / 'scores')
    (entry,) = (entry for entry in TABLES['model'].entries if entry.name == 'half')
    half = Runs(entry.experiment, tmp_path / 'runs')
    options = half.options(entry.measure)['validation']
    for event in [*trained(9), *scored(12.34, 9, part='validation')]:
        event |= {'settings': half.settings} | ({'options': options} if 'options' in event else {})
        add_to_log(half.log, **event)
    (tmp_path / 'scores' / 'ablations').mkdir(parents=True)
    file = tmp_path / 'scores' / 'ablations' / 'half.jsonl'
    file.write_text(kept)
    for _ in range(2):  # the second time adds nothing
        assert command.main(['ablations/half', 'ablations/untied', *runs]) == 0
        assert file.read_text() == kept + half.log.read_text()
    assert '| half | d_model 64, d_ff 128 | 1, 9 |' in document.read_text(encoding='utf-8')
    assert list((tmp_path / 'scores').rglob('*.jsonl')) == [file]


def test_a_line_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    add_to_log(tmp_path / 'log', 'train', seed=1)
    with (tmp_path / 'log').open('a') as opened:
        opened.write('{"event": "trai')
    assert [event['seed'] for event in read_logs(tmp_path / 'log')] == [1]


def test_a_repeated_seed_has_the_translations_and_scores_of_the_first() -> None:
    """RESULTS.md says so of the logs in `repeated/`."""
    names = ('set', 'seeds', 'options', 'sha256', 'scores')
    results = lambda path: [[e[name] for name in names] for e in read_logs(path) if e['event'] == 'score']
    paths = sorted((command.SCORES / 'repeated').rglob('*.jsonl'))
    assert paths
    for path in paths:
        repeated, first = results(path), results(command.SCORES / path.relative_to(command.SCORES / 'repeated'))
        assert repeated
        assert all(result in first for result in repeated), path


@pytest.mark.slow
def test_two_seeds_are_trained_scored_and_printed_and_the_second_time_nothing_is_done(tmp_path: Path) -> None:
    small = '--training.steps 2 --data.numbers-train 2000 --data.numbers-held-out 20 --training.sample-translations 0'
    tiny = Experiment('tiny', 'number_words', f'{small} --model.d-model 8 --model.d-ff 8')
    script = (
        'import sys; from benchmarks.reproduce import __main__ as command; from benchmarks.reproduce.tables import *; '
        f'TABLES["results"] = Table("results", "results", (Entry("tiny", {tiny!r}),)); '
        f'sys.exit(command.main(["tiny", "--seeds", "1", "2", "--ensemble", "--runs", {str(tmp_path)!r}]))'
    )
    run = lambda: subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True, text=True, check=True)
    printed = [run().stdout for _ in range(2)]
    assert printed[0] == printed[1]
    head, _, row, ensemble = printed[0].splitlines()  # nothing else: rows can be piped
    assert head.startswith('| result | seeds |')
    assert row.startswith('| tiny | 1, 2 |')
    assert ensemble.startswith('| tiny, ensemble of 1, 2 | 1, 2 |')
    events = [event['event'] for event in read_logs(tmp_path / 'tiny' / 'log.jsonl')]
    assert events == (['train', 'trained'] + ['scoring', 'score'] * 2) * 2 + ['scoring', 'score'] * 2

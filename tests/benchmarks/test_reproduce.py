"""What is trained and scored, and what is not again; names of experiments, and the tables of RESULTS.md."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, corpus
from reproduce_events import ENTRY, SETTINGS, TINY, other, scored, scores, trained

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import training
from benchmarks.reproduce.corpora import write_subset
from benchmarks.reproduce.experiments import Entry, Experiment, Table, Teacher
from benchmarks.reproduce.kept import joined, keep
from benchmarks.reproduce.log import Log
from benchmarks.reproduce.process import Ended, call, hardware
from benchmarks.reproduce.rows import make_rows
from benchmarks.reproduce.settings import settings_of
from benchmarks.reproduce.tables import RESULTS, TABLES, experiments
from benchmarks.reproduce.training import Runs, Stopped, digest
from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of
from flax_transformer.config import DataConfig

# ---------------------------------------------------------------------------------------------- the log


def test_a_line_that_a_kill_has_cut_is_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path / 'new' / 'log.jsonl')
    assert log.read() == []
    log.add('train', seed=1)
    with log.file.open('a') as opened:
        opened.write('{"event": "trai')
    log.add('train', seed=2)
    assert [event['seed'] for event in log.read()] == [1, 2]


# ------------------------------------------------------------------------------- what is done, what is skipped


class Fake:
    """Stands for the commands: notes them, and answers with these exit codes, then with 0."""

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes, self.asked = list(exit_codes), []

    def __call__(self, argv: list[str], *, stdout: Any = None) -> Ended:
        assert stdout is not None, 'standard output is for rows alone'
        self.asked.append(argv[3:])
        code = self.exit_codes.pop(0) if self.exit_codes else 0
        if argv[3] == 'evaluate' and not code:
            stdout.write(json.dumps(scores(40)).encode())
            output = Path(argv[argv.index('--output') + 1])
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text('eins\n')
        return Ended(code, 60.0, 30.0)


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The seeds that are trained; the digest of a run is its path."""
    done: set[int] = set()
    monkeypatch.setattr(Runs, 'is_finished', lambda self, seed: seed in done)
    monkeypatch.setattr(training, 'digest', str)
    monkeypatch.setattr(training, 'environment', lambda devices: {'commit': 'abc'})
    return done


def test_finished_seeds_are_not_trained_and_scores_are_kept(finished: set[int], tmp_path: Path) -> None:
    fake = Fake()
    runs = Runs(TINY, tmp_path, run=fake)
    finished.add(1)
    assert command.work(runs, [ENTRY], [1, 2])
    assert [(argv[0], argv[-1][-6:]) for argv in fake.asked if argv[0] == 'train'] == [('train', 'seed-2')]
    sets = [argv[argv.index('--data.test') + 1] for argv in fake.asked if argv[0] == 'evaluate']
    assert sets == ['number_words:validation', 'number_words:test'] * 2
    finished.add(2)
    assert command.work(runs, [ENTRY], [1, 2])
    assert len(fake.asked) == 5


def test_a_run_that_has_changed_is_scored_again(
    finished: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    runs = Runs(TINY, tmp_path, run=fake)
    finished.add(1)
    command.work(runs, [ENTRY], [1])
    monkeypatch.setattr(training, 'digest', lambda run: 'another')
    command.work(runs, [ENTRY], [1])
    assert len(fake.asked) == 4
    options = {part: runs.options(ENTRY.measure, part) for part in ('validation', 'test')}
    started = [event | {'settings': runs.settings.fields} for event in trained(1)]
    assert make_rows(ENTRY, [*started, *runs.log.read()], runs.settings, options)[0].test_scorings == 2


def test_what_one_process_scores_another_waits_for(
    finished: set[int], tmp_path: Path, capsys: pytest.CaptureFixture
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


def test_without_the_test_set_it_is_not_looked_at(finished: set[int], tmp_path: Path) -> None:
    finished |= {1, 2}
    fake = Fake()
    command.work(Runs(TINY, tmp_path, run=fake), [ENTRY], [1, 2], [(1, 2)], has_test=False)
    assert [argv[argv.index('--data.test') + 1] for argv in fake.asked] == ['number_words:validation'] * 3
    assert [path[-6:] for path in fake.asked[-1][1:3]] == ['seed-1', 'seed-2']


def test_a_seed_that_fails_is_noted_and_the_others_go_on(finished: set[int], tmp_path: Path) -> None:
    fake = Fake(1)
    runs = Runs(TINY, tmp_path, run=fake)
    assert not command.work(runs, [ENTRY], [1, 2], [(1, 2)])
    assert [argv[0] for argv in fake.asked] == ['train', 'train', 'evaluate', 'evaluate']
    (event,) = (each for each in runs.log.read() if each['event'] == 'trained' and each['seed'] == 1)
    assert (event['exit_code'], event['cpu_seconds']) == (1, 60)


def test_an_interruption_stops_everything(finished: set[int], tmp_path: Path) -> None:
    fake = Fake(75)
    with pytest.raises(Stopped):
        command.work(Runs(TINY, tmp_path, run=fake), [ENTRY], [1, 2])
    assert len(fake.asked) == 1


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
    assert (fake.asked, runs.log.read()) == ([], [])


def test_settings_are_what_decides_results_and_the_same_for_all_seeds(tmp_path: Path) -> None:
    config = Runs(TINY, tmp_path).config(1)
    cosmetic = replace(config, seed=2, training=replace(config.training, log_every=7))
    wider = replace(config, decoding=replace(config.decoding, beam_width=7))
    found = settings_of(config)
    assert settings_of(cosmetic) == found != settings_of(wider)
    assert 'decoding.beam_width' in found.resumable
    assert 'model.d_model' not in found.resumable
    moved = replace(config, data=replace(config.data, train='elsewhere'))
    assert settings_of(moved, {'pairs': 5}) == settings_of(config, {'pairs': 5}) != settings_of(config, {'pairs': 6})


def test_the_digest_of_a_run_is_that_of_its_checkpoints(tmp_path: Path) -> None:
    manifest = tmp_path / 'checkpoints' / '3' / 'manifest.json'
    manifest.parent.mkdir(parents=True)
    found = set()
    for weights in ('a', 'b', 'a'):
        manifest.write_text(weights)
        found.add(digest(tmp_path))
    assert len(found) == 2


def test_a_scoring_that_fails_is_noted(finished: set[int], tmp_path: Path) -> None:
    runs = Runs(TINY, tmp_path, run=Fake(2))
    finished.add(1)
    assert not command.work(runs, [ENTRY], [1])
    assert [event['event'] for event in runs.log.read()] == ['scoring', 'score failed', 'scoring', 'score']
    with pytest.raises(Stopped):
        command.work(Runs(TINY, tmp_path, run=Fake(75)), [ENTRY], [1])


@pytest.mark.parametrize(
    ('argv', 'message'),
    [
        (['nonesuch'], 'Experiments and tables: results, teachers'),
        (['number_words', '--seeds', '1', '1'], 'expected different numbers'),
        (['number_words', '--seeds', '-1', '2'], 'expected different numbers'),
        (['number_words', '--seeds', '1', '--ensemble'], 'expected two seeds'),
        (['number_words', '--write'], 'has no row'),
    ],
)
def test_bad_arguments_are_found_before_anything_is_run(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runs, 'train', lambda self, seed: pytest.fail('it was trained'))
    assert command.main([*argv, '--runs', str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert (out, list(tmp_path.iterdir())) == ('', [])
    assert message in err


def test_an_experiment_that_cannot_be_worked_on_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def train(self: Runs, seed: int) -> bool:
        asked.append(self.experiment.name)
        raise UserError('it is in use')

    monkeypatch.setattr(Runs, 'train', train)
    names = ['ablations/base', 'ablations/half']
    assert command.main([*names, '--seeds', '1', '--runs', str(tmp_path)]) == 1
    assert asked == names
    out, err = capsys.readouterr()
    assert 'ablations/half: it is in use' in err
    assert '| half |' in out


def test_rows_are_written_and_the_log_is_kept_with_all_scores_and_checksums(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document = tmp_path / 'RESULTS.md'
    document.write_text((ROOT / 'RESULTS.md').read_text(encoding='utf-8'), encoding='utf-8')
    monkeypatch.setattr(command, 'RESULTS_FILE', document)
    monkeypatch.setattr(command, 'SCORES', tmp_path / 'scores')
    (entry,) = (entry for entry in TABLES['model'].entries if entry.name == 'half')
    runs = Runs(entry.experiment, tmp_path / 'runs')
    facts = {'settings': runs.settings.fields, 'options': list(runs.options(entry.measure, 'validation'))}
    for event in [*trained(9), scored(12.34, 9, part='validation')]:
        event |= {name: fact for name, fact in facts.items() if name in event}
        runs.log.add(event.pop('event'), **event)
    argv = ['ablations/half', 'ablations/untied', '--runs', str(tmp_path / 'runs'), '--only-print', '--write']
    assert command.main(argv) == 0
    assert '| half | d_model 64, d_ff 128 | 9 | 12.34 |' in document.read_text(encoding='utf-8')
    (file,) = (tmp_path / 'scores').rglob('*.jsonl')
    assert file.relative_to(tmp_path / 'scores') == Path('ablations/half.jsonl')
    assert Log(file).read() == runs.log.read()
    score = Log(file).read()[-1]
    assert (score['scores']['nll'], score['sha256']) == (1.5, 'f00')


def test_translations_are_kept_with_their_attribution(
    finished: set[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for language, line in (('en', 'one'), ('de', 'ein')):
        (tmp_path / f'test.{language}').write_text(f'{line}\n')
    experiment = Experiment('tiny', 'number_words', ('--data.test', str(tmp_path / 'test.{lang}')))
    entry = Entry('tiny', experiment, attribution='# by somebody')
    monkeypatch.setattr(command, 'SCORES', tmp_path / 'scores')
    monkeypatch.setattr(command, 'RESULTS_FILE', document := tmp_path / 'RESULTS.md')
    monkeypatch.setattr(command, 'tables_of', lambda *_: [Table('own', 'results', (entry,))])
    monkeypatch.setattr(command, '_check', lambda *_: None)
    monkeypatch.setattr(Runs, '__init__', functools.partialmethod(Runs.__init__, run=Fake()))
    document.write_text('<!-- own: begin -->\n<!-- own: end -->\n')
    argv = ['tiny', '--seeds', '1', '2', '--runs', str(tmp_path / 'runs'), '--write']
    assert command.main(argv) == 0
    kept = tmp_path / 'scores' / 'tiny.tsv'
    assert kept.read_text() == '# by somebody\nen\tde\tseed 1\tseed 2\none\tein\teins\teins\n'
    elsewhere = ['tiny', '--seeds', '3', '--runs', str(tmp_path / 'elsewhere'), '--write']
    assert command.main(elsewhere) == 0
    added = '# by somebody\nen\tde\tseed 1\tseed 2\tseed 3\none\tein\teins\teins\teins\n'
    assert kept.read_text() == added
    (tmp_path / 'elsewhere' / 'tiny' / 'translations-3-test.txt').write_text('drei\n')
    kept.unlink()
    assert command.main(elsewhere) == 2
    assert not kept.exists()


# --------------------------------------------------------------------------------- logs of several machines


def _log(file: Path, *events: dict[str, Any]) -> Log:
    log = Log(file)
    for event in events:
        log.add(**event)
    return log


def test_logs_of_several_machines_are_added_up(tmp_path: Path) -> None:
    kept, own = (_log(tmp_path / name, *trained(seed)) for name, seed in (('kept', 1), ('own', 2)))
    once = joined(kept, own, SETTINGS)
    assert [event['seed'] for event in once] == [1, 1, 2, 2]
    keep(kept, once)
    own.add(**scored(40, 2))
    assert joined(kept, own, SETTINGS) == [*once, own.read()[-1]]


def test_another_run_of_a_kept_seed_is_refused_unless_its_config_was_another(tmp_path: Path) -> None:
    kept, own = (_log(tmp_path / name, *trained(1, minutes)) for name, minutes in (('kept', 2), ('own', 3)))
    with pytest.raises(UserError, match=r'seed 1 .*: expected one run, got one in .*kept and another in .*own; take'):
        joined(kept, own, SETTINGS)
    earlier = _log(tmp_path / 'earlier', *other(trained(1), **{'model.d_model': 4}))
    assert len(joined(earlier, own, SETTINGS)) == 4


def test_the_document_is_what_the_kept_logs_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    document = tmp_path / 'RESULTS.md'
    document.write_bytes((ROOT / 'RESULTS.md').read_bytes())
    monkeypatch.setattr(command, 'RESULTS_FILE', document)
    monkeypatch.setattr(command, 'keep_translations', lambda *_: None)
    assert command.main([*TABLES, '--runs', str(tmp_path), '--only-print', '--write']) == 0
    assert document.read_text(encoding='utf-8') == (ROOT / 'RESULTS.md').read_text(encoding='utf-8')


@pytest.mark.parametrize(('error', 'code'), [(OSError('no space left'), 2), (KeyboardInterrupt(), 75)])
def test_a_full_disk_and_ctrl_c_end_without_a_traceback(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def train(self: Runs, seed: int) -> bool:
        raise error

    monkeypatch.setattr(Runs, 'train', train)
    assert command.main(['number_words', '--runs', str(tmp_path)]) == code


def test_hardware_names_the_processor_and_what_else_it_ran_on() -> None:
    assert hardware('2 cpu devices by pmap') == hardware('')
    assert f'{os.cpu_count()} cores, ' in hardware('')
    assert hardware('1 gpu device by pmap').startswith('1 gpu device by pmap')


# -------------------------------------------------------------------------------------- names and variants


def test_a_name_is_a_table_an_experiment_or_a_config() -> None:
    assert command.tables_of('model', None, []) == [TABLES['model']]
    tatoeba = command.tables_of('tatoeba_en_de', None, [])
    assert [[entry.name for entry in table.entries] for table in tatoeba] == [
        ['tatoeba_en_de', 'tatoeba_en_de, all references'],
        ['all pairs', 'all pairs, all references'],
    ]
    assert [table.name for table in command.tables_of('ablations/base', None, [])] == ['model', 'decoding']
    (own,) = command.tables_of('dir/mine.py', None, [])
    assert own.entries[0].experiment == Experiment('mine', 'dir/mine.py')
    (own,) = command.tables_of('multi30k_en_de', 'trial', ['--seed', '3'])
    assert own.entries[0].experiment == Experiment('trial', 'multi30k_en_de', ('--seed', '3'))
    with pytest.raises(UserError, match='expected --name with them'):
        command.tables_of('multi30k_en_de', None, ['--only', '3'])
    with pytest.raises(UserError, match='give another --name'):
        command.tables_of('dir/multi30k_en_de.py', None, [])


def test_every_experiment_and_every_row_is_its_own() -> None:
    names = [experiment.name for experiment in experiments()]
    assert len(set(names)) == len(names)
    for table in TABLES.values():
        entry_names = [entry.name for entry in table.entries]
        assert len(set(entry_names)) == len(entry_names)
        assert table.columns == 'results' or not any(entry.measure.has_test for entry in table.entries)


def test_an_ablation_changes_what_its_options_name() -> None:
    base = Runs(TABLES['model'].entries[0].experiment, Path('runs')).config(1)
    for entry in TABLES['model'].entries:
        fields = entry.experiment.fields
        named = {option.removeprefix('--').replace('-', '_') for option in fields if '--' in option}
        changed = set(changed_fields(base, Runs(entry.experiment, Path('runs')).config(1)))
        assert changed <= named
        assert bool(changed) == bool(fields), entry.name


def test_a_subset_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    (tmp_path / 'all.en').write_text(''.join(f'{i}\n' for i in range(50)))
    (tmp_path / 'all.de').write_text(''.join(f'-{i}\n' for i in range(50)))
    data = DataConfig(root=str(tmp_path), train='all.{lang}')
    for pairs in (5, 20):
        write_subset(data, pairs, tmp_path / str(pairs))
    few, many = ((tmp_path / name / 'train.en').read_text().split() for name in ('5', '20'))
    assert many[:5] == few != ['0', '1', '2', '3', '4']
    assert (tmp_path / '5' / 'train.de').read_text().split() == [f'-{i}' for i in few]
    with pytest.raises(UserError, match='got 50 pairs, expected at least 60'):
        write_subset(data, 60, tmp_path / '60')


def test_a_subset_is_what_is_trained_on(tmp_path: Path) -> None:
    config = Runs(Experiment('curve/5', 'number_words', pairs=5), tmp_path).config(1)
    assert config.data.train == str(tmp_path / 'curve' / '5' / 'train.{lang}')


def test_training_on_a_subset_writes_it_first(finished: set[int], tmp_path: Path) -> None:
    for language in ('en', 'de'):
        (tmp_path / f'all.{language}').write_text(''.join(f'{language} {i}\n' for i in range(50)))
    (tmp_path / 'few.json').write_text(json.dumps({'data': {'root': str(tmp_path), 'train': 'all.{lang}'}}))
    fake = Fake()
    runs = Runs(Experiment('curve/5', str(tmp_path / 'few.json'), pairs=5), tmp_path / 'runs', run=fake)
    assert runs.train(1)
    assert [len((runs.folder / f'train.{each}').read_text().splitlines()) for each in ('en', 'de')] == [5, 5]
    assert fake.asked[0][fake.asked[0].index('--data.train') + 1] == str(runs.folder / 'train.{lang}')


class Translator(Fake):
    """Stands for `translate`, too: it adds its lines in capitals, only the first of them if it is to fail."""

    def __call__(self, argv: list[str], *, stdout: Any = None) -> Ended:
        ended = super().__call__(argv, stdout=stdout)
        if argv[3] == 'translate':
            assert '--resume' in argv
            source, output = (Path(argv[argv.index(option) + 1]) for option in ('--input', '--output'))
            lines = source.read_text().upper().splitlines(keepends=True)
            done = output.read_text().splitlines(keepends=True) if output.exists() else []
            output.write_text(''.join([*done, *lines[len(done) : 1 if ended.exit_code else None]]))
        return ended


def _student(tmp_path: Path) -> Experiment:
    """It learns from the pair en-de and from a teacher of each direction."""
    for language in ('en', 'de'):
        (tmp_path / f'all.{language}').write_text(f'{language} 1\n{language} 2\n')
    config = tmp_path / 'some.json'
    config.write_text(json.dumps({'data': {'root': str(tmp_path), 'train': 'all.{lang}'}}))
    back = ('--data.source-language', 'de', '--data.target-language', 'en')
    teachers = (Teacher(Experiment('there', str(config)), (1,)), Teacher(Experiment('back', str(config), back), (1, 2)))
    return Experiment('student', str(config), teachers=teachers)


def test_a_student_learns_from_its_corpus_and_from_what_its_teachers_translate_of_it(
    finished: set[int], tmp_path: Path
) -> None:
    fake = Translator()
    runs = Runs(_student(tmp_path), tmp_path / 'runs', run=fake)
    assert runs.train(3)
    assert (runs.folder / 'train.en').read_text() == 'en 1\nen 2\nen 1\nen 2\nDE 1\nDE 2\n'
    assert (runs.folder / 'train.de').read_text() == 'de 1\nde 2\nEN 1\nEN 2\nde 1\nde 2\n'
    assert [argv[0] for argv in fake.asked] == ['train'] * 3 + ['translate'] * 2 + ['train']
    voting = [str(runs.folder.with_name('back') / f'seed-{seed}') for seed in (1, 2)]
    assert fake.asked[4][1:3] == voting
    (event,) = (event for event in runs.log.read() if event['event'] == 'train')
    assert event['corpus']['train.de'] == sha256_of(runs.folder / 'train.de')
    finished |= {1, 2}
    assert runs.train(4)
    assert len(fake.asked) == 7, 'what is translated is kept'
    assert fake.asked[5][fake.asked[5].index('--data.train') + 1] == str(runs.folder / 'train.{lang}')


def test_the_settings_of_a_student_are_also_those_of_its_teachers(tmp_path: Path) -> None:
    student = _student(tmp_path)
    settings = Runs(student, tmp_path).settings
    there, back = student.teachers
    faster = replace(there.experiment, fields=('--optimizer.learning-rate', '0.5'))
    assert Runs(replace(student, teachers=(replace(there, experiment=faster), back)), tmp_path).settings != settings
    assert Runs(replace(student, teachers=(there,)), tmp_path).settings != settings
    assert json.loads(json.dumps(settings.fields)) == settings.fields


@pytest.mark.parametrize(('codes', 'error'), [((1,), UserError), ((0, 0, 0, 2), UserError), ((0, 0, 0, 75), Stopped)])
def test_a_student_is_not_trained_after_a_teacher_that_failed(
    codes: tuple[int, ...], error: type[Exception], finished: set[int], tmp_path: Path
) -> None:
    fake = Translator(*codes)
    runs = Runs(_student(tmp_path), tmp_path / 'runs', run=fake)
    with pytest.raises(error):
        runs.train(3)
    assert len(fake.asked) == len(codes)
    assert not (runs.folder / 'train.en').exists()
    assert runs.train(3)
    assert (runs.folder / 'train.de').read_text() == 'de 1\nde 2\nEN 1\nEN 2\nde 1\nde 2\n'


def test_a_run_that_other_teachers_taught_is_not_finished_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flax_transformer.tasks.translation.run import Run

    monkeypatch.setattr(training, 'finished', lambda *_: 1)
    student = _student(tmp_path)
    runs = Runs(student, tmp_path / 'runs', run=Translator())
    Run(runs.run(3)).open(runs.config(3))
    runs.log.add('train', seed=3, settings=runs.settings.fields)
    assert runs.is_finished(3)
    others = Runs(replace(student, teachers=student.teachers[:1]), tmp_path / 'runs', run=Translator())
    assert not others.is_finished(3)
    with pytest.raises(UserError, match='by other teachers'):
        others.train(3)


def test_translations_that_are_not_line_by_line_are_refused(finished: set[int], tmp_path: Path) -> None:
    finished.add(1)
    runs = Runs(TINY, tmp_path, run=Translator())
    assert runs.translate([1], ['a', 'b']) == ['A', 'B']
    (output,) = runs.folder.glob('*.translated')
    output.write_text('A\nA\nB\n')
    with pytest.raises(UserError, match='got 3 lines for the 2 of'):
        runs.translate([1], ['a', 'b'])


def test_another_search_translates_anew(finished: set[int], tmp_path: Path) -> None:
    finished.add(1)
    fake = Translator()
    for width in ('2', '3', '3'):
        experiment = Experiment('tiny', 'number_words', ('--decoding.beam-width', width))
        Runs(experiment, tmp_path, run=fake).translate([1], ['a'])
    assert len(fake.asked) == 2


def test_all_references_of_tatoeba_are_read() -> None:
    from flax_transformer.data.bitext.sources import read_corpus

    corpus('tatoeba_en_de', 'test.allrefs.de.tsv')
    (entry,) = (entry for entry in RESULTS.entries if entry.name == 'tatoeba_en_de, all references')
    data = Runs(entry.experiment, Path('runs')).config(0).data
    alone, several = read_corpus(data.test, data), read_corpus(entry.measure.test, data)
    assert (alone.sources, alone.targets) == (several.sources, several.targets)
    assert len(several.references) == 5


# ------------------------------------------------------------------------------------------ from end to end


@pytest.mark.slow
def test_two_seeds_are_trained_scored_and_printed_and_the_second_time_nothing_is_done(tmp_path: Path) -> None:
    small = ['--training.steps', '2', '--data.numbers-train', '2000', '--data.numbers-held-out', '20']
    small += ['--model.d-model', '8', '--model.d-ff', '8', '--training.sample-translations', '0']
    argv = ['number_words', '--name', 'tiny', '--seeds', '1', '2', '--ensemble', '--runs', str(tmp_path), *small]
    printed = [
        subprocess.run(
            [sys.executable, '-m', 'benchmarks.reproduce', *argv], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert printed[0] == printed[1]
    head, _, row, ensemble = printed[0].splitlines()  # nothing else: rows can be piped
    assert head.startswith('| result | seeds |')
    assert row.startswith('| tiny | 1, 2 |')
    assert ensemble.startswith('| tiny, ensemble | 1, 2 |')
    events = [event['event'] for event in Log(tmp_path / 'tiny' / 'log.jsonl').read()]
    assert events == (['train', 'trained'] + ['scoring', 'score'] * 2) * 2 + ['scoring', 'score'] * 2
    rows = json.loads((tmp_path / 'tiny' / 'rows-own.json').read_text())
    assert [len(row['test']) for row in rows] == [2, 1]
    assert len(rows[0]['sha256'][0]) == 64

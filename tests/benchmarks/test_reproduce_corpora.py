"""Subsets of a corpus, and what teachers translate of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from reproduce_commands import Fake, Translator
from reproduce_events import TINY

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import training
from benchmarks.reproduce.corpora import write_subset
from benchmarks.reproduce.experiments import Entry, Experiment, Measure, Table, Teacher
from benchmarks.reproduce.log import Log
from benchmarks.reproduce.training import Runs, Stopped
from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig


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


def test_training_on_a_subset_writes_it_first(finished_seeds: set[int], tmp_path: Path) -> None:
    for language in ('en', 'de'):
        (tmp_path / f'all.{language}').write_text(''.join(f'{language} {i}\n' for i in range(50)))
    (tmp_path / 'few.json').write_text(json.dumps({'data': {'root': str(tmp_path), 'train': 'all.{lang}'}}))
    fake = Fake()
    runs = Runs(Experiment('curve/5', str(tmp_path / 'few.json'), pairs=5), tmp_path / 'runs', run=fake)
    assert runs.train(1)
    assert [len((runs.folder / f'train.{each}').read_text().splitlines()) for each in ('en', 'de')] == [5, 5]
    assert fake.asked[0][fake.asked[0].index('--data.train') + 1] == str(runs.folder / 'train.{lang}')


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
    finished_seeds: set[int], tmp_path: Path
) -> None:
    fake = Translator()
    runs = Runs(_student(tmp_path), tmp_path / 'runs', run=fake)
    assert runs.train(3)
    assert (runs.folder / 'train.en').read_text() == 'en 1\nen 2\nen 1\nen 2\nDE 1\nDE 2\n'
    assert (runs.folder / 'train.de').read_text() == 'de 1\nde 2\nEN 1\nEN 2\nde 1\nde 2\n'
    assert [argv[0] for argv in fake.asked] == ['train'] * 3 + ['translate'] * 2 + ['train']
    voting = [str(runs.folder.with_name('back') / f'seed-{seed}') for seed in (1, 2)]
    assert fake.asked[4][1:3] == voting
    finished_seeds |= {1, 2}
    assert runs.train(4)
    assert len(fake.asked) == 7, 'what is translated is kept'
    assert fake.asked[5][fake.asked[5].index('--data.train') + 1] == str(runs.folder / 'train.{lang}')


def test_with_a_student_the_logs_of_its_teachers_are_kept(
    finished_seeds: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = _student(tmp_path)
    monkeypatch.setattr(command, 'SCORES', tmp_path / 'scores')
    monkeypatch.setattr(command, 'RESULTS_FILE', document := tmp_path / 'RESULTS.md')
    document.write_text('<!-- own: begin -->\n<!-- own: end -->\n')
    Runs(student, tmp_path / 'runs', run=Translator()).train(3)
    measure = Measure(validation='all.{lang}', has_test=False)
    table = Table('own', 'results', (Entry('student', student, measure),))
    command.write(table, command.report(table, tmp_path / 'runs'), tmp_path / 'runs')
    events = [event['event'] for event in Log(tmp_path / 'scores' / 'back.jsonl').read()]
    assert events == ['train', 'trained'] * 2 + ['translated']
    Runs(student, tmp_path / 'elsewhere', run=Translator()).train(4)  # by teachers of its own
    command.write(table, command.report(table, tmp_path / 'elsewhere'), tmp_path / 'elsewhere')
    assert Log(tmp_path / 'scores' / 'back.jsonl').read() == Log(tmp_path / 'runs' / 'back' / 'log.jsonl').read()


def test_the_settings_of_a_student_are_also_those_of_its_teachers(tmp_path: Path) -> None:
    student = _student(tmp_path)
    settings = Runs(student, tmp_path).settings
    there, back = student.teachers
    faster = replace(there.experiment, fields=('--optimizer.learning-rate', '0.5'))
    assert Runs(replace(student, teachers=(replace(there, experiment=faster), back)), tmp_path).settings != settings
    assert Runs(replace(student, teachers=(there,)), tmp_path).settings != settings
    assert json.loads(json.dumps(settings.fields)) == settings.fields


@pytest.mark.parametrize(('codes', 'error'), [((1,), UserError), ((0, 0, 0, 75), Stopped)])
def test_a_student_is_not_trained_after_a_teacher_that_failed(
    codes: tuple[int, ...], error: type[Exception], finished_seeds: set[int], tmp_path: Path
) -> None:
    fake = Translator(*codes)
    runs = Runs(_student(tmp_path), tmp_path / 'runs', run=fake)
    with pytest.raises(error):
        runs.train(3)
    assert len(fake.asked) == len(codes)
    assert not (runs.folder / 'train.en').exists()
    assert runs.train(3)
    assert (runs.folder / 'train.de').read_text() == 'de 1\nde 2\nEN 1\nEN 2\nde 1\nde 2\n'


def test_a_run_that_other_teachers_taught_is_not_finished_and_is_refused(tmp_path: Path, monkeypatch) -> None:
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


def test_translations_that_are_not_line_by_line_are_refused(finished_seeds: set[int], tmp_path: Path) -> None:
    finished_seeds.add(1)
    runs = Runs(TINY, tmp_path, run=Translator())
    assert runs.translate([1], ['a', 'b']) == ['A', 'B']
    (output,) = runs.folder.glob('*.translated')
    output.write_text('A\nA\nB\n')
    with pytest.raises(UserError, match='got 3 lines for the 2 of'):
        runs.translate([1], ['a', 'b'])

"""A run that somebody else made reads no file that its user did not name; one's own run asks for nothing."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from strange_files import GOLDEN

from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config, DataConfig
from flax_transformer.engine import launch
from flax_transformer.engine.runs.averaging import average
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.runs.trust import is_remembered, remember, remembered_task_folder
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.evaluation import scored_set
from flax_transformer.tasks.recipes import recipe_named
from flax_transformer.tasks.translation.evaluate import read_set
from flax_transformer.tasks.translation.run import Run

OURS = DataConfig(train='train.{lang}', validation='', test='test.{lang}')
REFUSED = 'was not trained here by you'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of our own, a data folder with a test set, and next to it one with secrets."""
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'state'))
    monkeypatch.setenv('FLAX_TRANSFORMER_DATA', str(tmp_path / 'data'))
    monkeypatch.setenv('HOME', str(tmp_path / 'secret'))
    for folder in ('data', 'secret'):
        (tmp_path / folder).mkdir()
        for language in ('en', 'de'):
            (tmp_path / folder / f'test.{language}').write_text(f'{folder}\n')
    return tmp_path / 'state'


def make(folder: Path, **data: str | None) -> Run:
    """A run whose config names this data, as anybody could write it."""
    run = Run(folder)
    run.path.mkdir()
    run.write_config(Config(data=replace(OURS, **data)))
    return run


def read(run: Run, *, trust: bool = False, **given: str) -> list[str]:
    return read_set(str(run.path), None, (), replace(run.read_config().data, **given), trust=trust)[1].sources


@pytest.mark.parametrize(
    'data',
    [
        {'root': '{secret}'},
        {'root': '~'},
        {'test': '{secret}/test.{lang}'},
        {'test': '../secret/test.{lang}'},
        {'test': 'test.en,{secret}/test.de'},
        {'test': '~/test.{lang}'},
        {'test': '../secret/pairs.tsv#2,1'},
        {'test': 'tfds:x:test', 'root': '{secret}'},
        {'test': 'link/test.{lang}'},
        {'test': 'linked.{lang}'},
        {'test': '/**/test.{lang}'},
    ],
    ids=str,
)
def test_a_strangers_test_set_outside_the_data_folder_is_not_read(data: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / 'data' / 'link').symlink_to('../secret')
    for language in ('en', 'de'):
        (tmp_path / 'data' / f'linked.{language}').symlink_to(f'../secret/test.{language}')
    secret = str(tmp_path / 'secret')
    run = make(tmp_path / 'run', **{name: value.replace('{secret}', secret) for name, value in data.items()})
    with pytest.raises(UserError, match=rf'{REFUSED}.*--source and --reference.*--trust-data'):
        read(run)
    assert not is_remembered(run.path)


@pytest.mark.parametrize('language', ['/../../secret/test.en', '..', 'a\\b'])
def test_a_language_that_is_a_path_is_refused(language: str) -> None:
    with pytest.raises(UserError, match=r'source_language=.*expected a language'):
        replace(OURS, source_language=language)


AUDIO = [
    '..#text',
    '..?speaker!=z',
    '../secret/index.tsv?speaker!=z',
    'link?speaker!=z',
    'tones/../../secret/index.tsv',
]


def call(task: str, tmp_path: Path, *options: str, **data: Any) -> tuple[RunDirectory, Any]:
    """A stranger's run of a task, and what `evaluate` does with it."""
    recipe = recipe_named(task)
    config = recipe.config()
    run = recipe.run(tmp_path / 'run')
    run.path.mkdir()
    run.write_config(replace(config, data=replace(config.data, **data)))
    return run, partial(main, ['evaluate', str(run.path), *options])


@pytest.mark.parametrize(
    ('task', 'field', 'name'),
    [
        *(('speech', 'test', name) for name in AUDIO),
        *(('trigger_word', 'test', name) for name in (*AUDIO, 'melodies/../../secret')),
        ('trigger_word', 'test_background', '..#text'),
        *(('classification', 'test', name) for name in ('..', '~', '../test.tsv#2,1', 'li*.tsv')),
        ('classification', 'test', 'opinions/../../secret'),
    ],
)
def test_no_task_follows_a_stranger_out_of_the_data_folder(
    task: str, field: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of these end in `..` only where the reader cuts them; their folder has recordings with a transcript."""
    (tmp_path / 'data' / 'link').symlink_to('../secret')
    (tmp_path / 'data' / 'li.tsv').symlink_to('../secret/test.en')
    (tmp_path / '1.trans.txt').write_text('1-1 secret\n')
    data = {field: name} if task != 'trigger_word' else {'test': ('melodies:test',), field: (name,)}
    _, evaluate = call(task, tmp_path, **data)
    assert evaluate() == 2
    error = capsys.readouterr().err
    assert REFUSED in error
    assert '--trust-data, once' in error


def test_below_the_users_data_folder_nothing_is_asked(tmp_path: Path) -> None:
    assert read(make(tmp_path / 'run')) == ['data']
    assert read(make(tmp_path / 'made', train='number_words:train', test='number_words:test'))


def test_what_the_user_names_is_read(tmp_path: Path) -> None:
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    assert read(run, root=str(tmp_path / 'data')) == ['data']
    assert read(run, test=str(tmp_path / 'data' / 'test.{lang}')) == ['data']
    with pytest.raises(UserError, match=REFUSED):  # relative to a root that is still the stranger's
        read(run, test='test.en,test.de')
    other = make(tmp_path / 'other', test=str(tmp_path / 'secret' / 'test.{lang}'))
    with pytest.raises(UserError, match=REFUSED):  # an absolute path ignores the root
        read(other, root=str(tmp_path / 'data'))
    (tmp_path / 'elsewhere').mkdir()
    for language in ('fr', 'de'):
        (tmp_path / 'elsewhere' / f'test.{language}').write_text('elsewhere\n')
    french = make(tmp_path / 'french', source_language='fr')
    assert read(french, test=str(tmp_path / 'elsewhere' / 'test.{lang}')) == ['elsewhere']
    assert read(french, root=str(tmp_path / 'elsewhere')) == ['elsewhere']


@pytest.mark.parametrize(('test', 'root'), [('test.{lang}', '.'), ('tfds:name:test', None)])
def test_files_that_the_user_names_are_below_the_present_folder_and_data_sets_below_the_data_folder(test, root) -> None:
    _, data = scored_set('run', test, replace(OURS, root='theirs'), Mock(), trust=False)
    assert data.root == root


def test_what_the_user_names_may_lie_next_to_what_the_stranger_names(tmp_path: Path, capsys) -> None:
    data = {'test': ('a.tsv',), 'test_background': ('../bad.tsv',), 'validation': ('../bad.tsv',)}
    _, evaluate = call('trigger_word', tmp_path, '--data.test', f'{tmp_path}/mine.tsv', **data)
    assert evaluate() == 2
    assert f"says to read '{tmp_path}/bad.tsv'" in capsys.readouterr().err
    assert main(['evaluate', str(tmp_path / 'run'), '--part', 'validation']) == 2
    assert '--data.validation and --data.validation-background, or' in capsys.readouterr().err


def test_ones_own_run_is_read_where_it_was_trained(tmp_path: Path) -> None:
    run = Run(tmp_path / 'run')
    run.open(Config(data=replace(OURS, root=str(tmp_path / 'secret'))))
    assert read(run) == ['secret']
    (tmp_path / 'link').symlink_to(run.path)
    assert read(Run(tmp_path / 'link')) == ['secret']
    moved = Run(run.path.rename(tmp_path / 'moved'))
    with pytest.raises(UserError, match=REFUSED):
        read(moved)
    assert read(moved, trust=True) == read(moved) == ['secret']


def test_a_run_is_remembered_for_its_user_and_its_config_alone(tmp_path: Path, monkeypatch) -> None:
    run = Run(tmp_path / 'run')
    ours = Config(data=replace(OURS, root=str(tmp_path / 'secret')))
    run.open(ours)
    run.write_config(replace(ours, seed=5))
    with pytest.raises(UserError, match=REFUSED):
        read(run)
    run.write_config(ours)
    assert read(run)
    remember(run.path, tmp_path)
    remember(run.path)  # by --trust-data: where its module is stays known
    assert remembered_task_folder(run.path) == tmp_path
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'another_user'))
    with pytest.raises(UserError, match=REFUSED):
        read(run)


def test_a_run_whose_steps_follow_the_clock_stays_ours(tmp_path: Path) -> None:
    run = Run(tmp_path / 'run')
    run.open(Config(data=OURS))
    launch._note_steps(run, Config(data=OURS), 7)
    assert run.read_config().training.steps == 7
    assert is_remembered(run.path)


@pytest.mark.parametrize('damage', ['file', 'fifo', 'no home'])
def test_training_and_evaluating_go_on_without_a_state_folder(
    damage: str, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / 'run')
    if damage == 'file':
        state.write_text('')
    elif damage == 'no home':
        monkeypatch.delenv('XDG_STATE_HOME')
        monkeypatch.setattr(Path, 'home', lambda: (_ for _ in ()).throw(RuntimeError('no home')))
    run.open(Config(data=replace(OURS, root=str(tmp_path / 'secret'))))
    if damage == 'fifo':
        (note,) = (state / 'flax_transformer' / 'runs').iterdir()
        note.unlink()
        os.mkfifo(note)
    with pytest.raises(UserError, match=REFUSED):
        read(run)
    assert read(run, trust=True) == ['secret']


@pytest.mark.slow
def test_the_mean_of_a_strangers_run_is_a_strangers(tmp_path: Path) -> None:
    def mean(name: str) -> Path:
        run = Run(GOLDEN)
        shapes = make_trainer(run.read_config()).shapes.params
        return average(run, tmp_path / name, shapes, last=1)[0].path

    assert not is_remembered(mean('theirs'))
    remember(GOLDEN)
    assert is_remembered(mean('ours'))

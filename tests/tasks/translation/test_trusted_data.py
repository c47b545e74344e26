"""A run that somebody else made reads no file that its user did not name; one's own run asks for nothing."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.config import Config, DataConfig
from flax_transformer.engine.runs.seal import SEAL_FILE, copy_seal, is_sealed, key_file, seal
from flax_transformer.tasks.translation.evaluate import read_set
from flax_transformer.tasks.translation.run import Run
from flax_transformer.tasks.translation.trusted_data import seal_data

OURS = DataConfig(train='train.{lang}', validation='', test='test.{lang}')


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of our own, and a data folder with a test set."""
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'state'))
    monkeypatch.setenv('FLAX_TRANSFORMER_DATA', str(tmp_path / 'data'))
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
        {'test': '{secret}/test.{lang}'},
        {'test': '../secret/test.{lang}'},
        {'test': 'x/../../secret/test.{lang}'},
        {'test': 'test.en,{secret}/test.de'},
        {'test': 'test.en, {secret}/test.de'},
        {'test': '~/test.{lang}'},
        {'test': 'test.en,../secret/test.de'},
        {'test': 'tfds:../evil/x:test'},
        {'test': 'tfds:/evil/x:test'},
        {'test': '{lang}', 'source_language': '{secret}/test.en', 'target_language': '{secret}/test.de'},
        {'test': 'x{lang}', 'source_language': '/../../secret/test.en', 'target_language': '/../../secret/test.de'},
        {'test': '{lang}{lang}/secret/test.en', 'source_language': '.', 'target_language': '.'},
        {'test': 'C:/secret/test.{lang}'},
        {'test': '{lang}/test', 'source_language': 'C:', 'target_language': 'C:'},
        {'test': 'x\n/../../secret/test.{lang}'},
    ],
)
def test_a_strangers_test_set_outside_the_data_folder_is_not_read(data: dict[str, str], tmp_path: Path) -> None:
    secret = str(tmp_path / 'secret')
    run = make(tmp_path / 'run', **{name: value.replace('{secret}', secret) for name, value in data.items()})
    with pytest.raises(UserError, match=r'was not trained here by you.*--source and --reference.*--trust-data'):
        read(run)
    assert not (run.path / SEAL_FILE).exists()


def test_below_the_users_data_folder_nothing_is_asked(tmp_path: Path) -> None:
    assert read(make(tmp_path / 'run')) == ['data']
    assert read(make(tmp_path / 'made', train='number_words:train', test='number_words:test'))


def test_what_the_user_names_is_read(tmp_path: Path) -> None:
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    assert read(run, root=str(tmp_path / 'data')) == ['data']
    with pytest.raises(UserError, match='was not trained here'):  # relative to a root that is still the stranger's
        read(run, test='test.en,test.de')
    other = make(tmp_path / 'other', test=str(tmp_path / 'secret' / 'test.{lang}'))
    assert read(other, test=str(tmp_path / 'data' / 'test.{lang}')) == ['data']
    with pytest.raises(UserError, match='was not trained here'):  # an absolute path ignores the root
        read(other, root=str(tmp_path / 'data'))
    languages = make(tmp_path / 'languages', source_language='../secret/test.en', target_language='de')
    with pytest.raises(UserError, match=r"was not trained here.*'\.\./secret/test\.en,de'"):
        read(languages, test='{lang}')
    assert read(languages, test='test.{lang}', source_language='en') == ['data']


def test_ones_own_run_is_trusted_wherever_it_is_moved_to(tmp_path: Path, capsys) -> None:
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    seal_data(run, run.read_config().data, say=print)
    assert capsys.readouterr().out == ''
    assert read(run) == ['secret']
    assert read(Run(run.path.rename(tmp_path / 'moved'))) == ['secret']


def test_a_seal_holds_for_its_user_and_its_settings_alone(tmp_path: Path, state: Path, monkeypatch) -> None:
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    seal_data(run, run.read_config().data, say=print)
    for changed in ({'root': '/home/other'}, {'source_language': '../data/test.en'}, {'test': 'test.en,test.de'}):
        run.write_config(Config(data=replace(OURS, **{'root': str(tmp_path / 'secret'), **changed})))
        with pytest.raises(UserError, match='was not trained here'):
            read(run)
    run.write_config(Config(data=replace(OURS, root=str(tmp_path / 'secret'))))
    assert read(run)
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'another_user'))
    with pytest.raises(UserError, match='was not trained here'):
        read(run)


def test_trust_is_asked_for_once(tmp_path: Path) -> None:
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    assert read(run, trust=True) == ['secret']
    assert read(run) == ['secret']


def test_the_key_is_its_owners_and_is_made_once(tmp_path: Path) -> None:
    assert seal(tmp_path, 'x') == ''
    assert key_file().stat().st_mode & 0o777 == 0o600
    key = key_file().read_bytes()
    assert seal(tmp_path, 'y') == ''
    assert key_file().read_bytes() == key
    assert is_sealed(tmp_path, 'y')
    assert not is_sealed(tmp_path, 'x')
    assert [file.name for file in key_file().parent.iterdir()] == ['key']


def test_a_key_is_made_where_there_are_no_hard_links(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, 'Operation not permitted')

    monkeypatch.setattr(os, 'link', refuse)
    assert seal(tmp_path, 'x') == ''
    key = key_file().read_bytes()
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert seal(tmp_path, 'y') == ''
    assert key_file().read_bytes() == key
    assert [file.name for file in key_file().parent.iterdir()] == ['key']


@pytest.mark.parametrize('damage', ['no_folder', 'damaged', 'fifo', 'no_home'])
def test_training_goes_on_without_a_key(damage: str, tmp_path: Path, state: Path, monkeypatch, capsys) -> None:
    if damage == 'no_folder':
        state.write_text('')
    elif damage == 'no_home':
        monkeypatch.delenv('XDG_STATE_HOME')
        monkeypatch.setattr(Path, 'home', lambda: (_ for _ in ()).throw(RuntimeError('no home')))
    else:
        key_file().parent.mkdir(parents=True)
        key_file().write_text('short') if damage == 'damaged' else os.mkfifo(key_file())
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    seal_data(run, run.read_config().data, say=print)
    assert 'could not be sealed as yours' in capsys.readouterr().out
    assert read(run, trust=True) == ['secret']
    inside = make(tmp_path / 'inside')
    seal_data(inside, inside.read_config().data, say=print)
    assert capsys.readouterr().out == ''  # nobody will miss it
    assert read(inside) == ['data']


def test_a_forged_seal_is_none(tmp_path: Path) -> None:
    run = make(tmp_path / 'run', root=str(tmp_path / 'secret'))
    for content in (b'', b'0' * 64, b'x' * 2000, b'\xff'):
        (run.path / SEAL_FILE).write_bytes(content)
        with pytest.raises(UserError, match='was not trained here'):
            read(run)
    (run.path / SEAL_FILE).unlink()
    os.mkfifo(run.path / SEAL_FILE)
    with pytest.raises(UserError, match='was not trained here'):
        read(run)


def test_a_seal_is_copied_and_no_file_that_it_leads_to(tmp_path: Path) -> None:
    for name in ('sealed', 'linked', 'none', 'to'):
        (tmp_path / name).mkdir()
    seal(tmp_path / 'sealed', 'x')
    (tmp_path / 'linked' / SEAL_FILE).symlink_to(tmp_path / 'secret' / 'test.en')
    for name in ('linked', 'none'):
        copy_seal(tmp_path / name, tmp_path / 'to')
        assert not list((tmp_path / 'to').iterdir())
    copy_seal(tmp_path / 'sealed', tmp_path / 'to')
    assert is_sealed(tmp_path / 'to', 'x')


def test_training_seals_the_run(copy_run: Path) -> None:
    assert len((copy_run / SEAL_FILE).read_text().strip()) == 64
    assert json.loads((copy_run / 'config.json').read_text())['data']['root']

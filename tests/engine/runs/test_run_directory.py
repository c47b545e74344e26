"""A run directory takes its own run only, and says by name what is in the way."""

import dataclasses
import json

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.config import Config
from flax_transformer.engine.runs.averaging import average
from flax_transformer.engine.runs.run_directory import environment
from flax_transformer.tasks.translation.run import Run


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / 'runs' / 'mine')
    run.open(Config())
    return run


def changed(field, value, config=None):
    """The config with `section.field` set."""
    config = config or Config()
    section, _, name = field.rpartition('.')
    if not section:
        return dataclasses.replace(config, **{name: value})
    return dataclasses.replace(config, **{section: dataclasses.replace(getattr(config, section), **{name: value})})


def content(folder):
    return {file: file.read_bytes() for file in sorted(folder.rglob('*')) if file.is_file()}


def test_a_new_run_keeps_its_config(run):
    assert run.exists()
    assert Run(str(run.path)).read_config() == Config()
    assert [file.name for file in run.path.iterdir()] == ['config.json']


@pytest.mark.parametrize(
    ('field', 'old', 'new'),
    [
        ('model.d_model', 512, 256),
        ('model.norm_first', False, True),
        ('optimizer.clip_norm', None, 1.0),
        ('training.tokens_per_step', 25600, 12800),
        ('seed', 0, 1),
    ],
)
def test_the_run_of_another_config_is_refused_with_field_and_both_values(run, field, old, new):
    before = content(run.path)
    for enter in (run.check, run.open):
        with pytest.raises(UserError, match='holds a run of another config') as caught:
            enter(changed(field, new))
        assert f'{field}: {old!r} there, {new!r} here' in str(caught.value)
        assert 'another --workdir' in str(caught.value)
    assert content(run.path) == before


def test_a_config_is_whole_or_as_it_was(run, monkeypatch):
    """The machine stops between writing and renaming."""
    before = run.config_file.read_bytes()
    monkeypatch.setattr(type(run.path), 'replace', lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run.open(changed('training.steps', 7))
    assert run.config_file.read_bytes() == before


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / 'thesis.tex').write_text('words')
    for enter in (Run(tmp_path).check, Run(tmp_path).open):
        with pytest.raises(UserError, match=r'exists and is not a run directory; .*another --workdir'):
            enter(Config())
    assert [file.name for file in tmp_path.iterdir()] == ['thesis.tex']
    (tmp_path / 'link').symlink_to('/')  # anybody's home folder may have one
    for path in (tmp_path, tmp_path / 'thesis.tex'):
        with pytest.raises(UserError, match='is not a run directory'):
            Run(path).check(Config())


@pytest.mark.parametrize('name', ['y[b]', 'a*', 'a?/run', 'a\\b', 'gs:/bucket/run', 'a\udcff'])
def test_a_path_under_which_checkpoints_would_be_lost_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=r'checkpoints cannot be saved below a folder with .+ in its name'):
        Run(tmp_path / name).check(Config())
    assert not list(tmp_path.iterdir())


def test_other_paths_of_any_script_are_taken(tmp_path):
    for name in ('a b', "quote'", 'a:b', '{x}', 'größe', '走', '#1', '$HOME', '~', 'x]'):
        Run(tmp_path / name / 'run').check(Config())


def test_average_copies_nothing_that_a_strangers_link_leads_to(tmp_path):
    run, secret = Run(tmp_path / 'run'), tmp_path / 'secret'
    secret.mkdir()
    run.open(Config())
    tokenizer = run.path / 'tokenizer'
    for link in (tokenizer, tokenizer / 'more'):
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(secret)
        with pytest.raises(UserError, match='is a link out of the run'):
            average(run, tmp_path / 'out', None, last=1)
        link.unlink()
    (tokenizer / 'self').symlink_to(tokenizer / 'self')
    assert run.link_out('tokenizer') is None
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('damage', 'expected'),
    [
        (lambda text: text[: len(text) // 2], 'config is not JSON'),
        (lambda text: text.replace('"d_model": 512', '"d_model": "512"'), "model.d_model='512'"),
    ],
    ids=['cut', 'type'],
)
def test_a_damaged_config_is_named_with_what_is_wrong(run, damage, expected):
    run.config_file.write_text(damage(run.config_file.read_text()))
    with pytest.raises(UserError, match=rf'config\.json: .*{expected}'):
        run.read_config()


def test_every_start_adds_its_environment_to_what_is_whole(run):
    (run.path / 'environment.json').write_text('')  # as a full disk, or a kill while it is written, leaves it
    run.note_environment('1 cpu')
    run.note_environment('8 tpu')
    starts = json.loads((run.path / 'environment.json').read_text())
    assert [start['devices'] for start in starts] == ['1 cpu', '8 tpu']
    assert starts[0]['versions']['jax']
    assert starts[0].keys() == environment('').keys()


@pytest.mark.parametrize('error', [UserError('fault'), KeyboardInterrupt()], ids=['fault', 'stopped'])
def test_what_failed_leaves_no_data_cache_but_what_is_prepared_in_it(tmp_path, error):
    run = Run(tmp_path / 'run')

    def fail(*names):
        with run.data_cache(Config().data) as cache:
            cache.mkdir(parents=True)
            (cache / 'abc.lock').touch()
            for name in names:
                (cache / name).mkdir()
            raise error

    with pytest.raises(type(error)):
        fail()
    assert not run.path.exists()
    with pytest.raises(type(error)):
        fail('abc')
    assert (run.path / 'data_cache' / 'abc').is_dir()
    run.open(Config())  # nothing but a cache is in the way of no run
    assert run.exists()


def test_a_fault_never_removes_a_shared_cache_nor_a_run(run, tmp_path):
    shared = tmp_path / 'shared'
    shared.mkdir()
    with pytest.raises(UserError), run.data_cache(changed('data.cache', str(shared)).data):
        raise UserError('fault')
    assert shared.is_dir()
    with pytest.raises(UserError), run.data_cache(Config().data):
        raise UserError('fault')
    assert run.read_config() == Config()

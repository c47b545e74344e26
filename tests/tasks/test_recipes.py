"""Which task a run or a config is of; a stranger's file names no other module."""

import importlib
import json
import shutil
import subprocess
import sys
from dataclasses import make_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import ClassVar
from unittest.mock import Mock

import jax
import numpy as np
import pytest
import toy_task
from conftest import TESTS, copy_config
from toy_runs import CircleRun
from toy_task import CircleConfig

from flax_transformer import train
from flax_transformer.cli import main
from flax_transformer.cli.train import train_options
from flax_transformer.common.config_json import Header, from_json, header_of, to_json
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config
from flax_transformer.engine.config import ParallelConfig, TaskConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.runs.task_module import home_of
from flax_transformer.engine.task_value import Command
from flax_transformer.engine.validation import held_out
from flax_transformer.tasks.api import load_run, make_trainer, open_run, read_run_config
from flax_transformer.tasks.recipes import recipe_of
from flax_transformer.tasks.translation.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with nothing but a config."""
    folder = tmp_path / 'run'
    Run(folder).open(copy_config(tmp_path))
    return folder


def rewrite(run: Path, **changes: object) -> None:
    file = run / 'config.json'
    values = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({name: value for name, value in values.items() if value is not ...}))


def test_a_run_says_its_task(run: Path, tmp_path: Path) -> None:
    assert header_of((run / 'config.json').read_text()) == Header('translation')
    assert isinstance(open_run(run), Run)
    assert read_run_config(f'{run}@best') == copy_config(tmp_path)


def test_a_run_of_version_1_is_refused_in_a_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(run, schema_version=1, task=...)
    assert main(['translate', str(run)]) == 2
    said = f'{run}/config.json: schema_version=1: this version of flax_transformer reads 2; train again\n'
    assert capsys.readouterr().err == f'flax-transformer: {said}'


TASKS = 'classification, embeddings, speech, translation, trigger_word'


@pytest.mark.parametrize('task', ['../x', 'os', 'translation.run', '', '/tmp/evil', 'translatoin'])
def test_a_run_of_an_unknown_task_is_refused_and_nothing_imported(
    run: Path, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('evil', 'x'):
        (tmp_path / name).mkdir()
        for module in ('__init__', 'run', 'config', 'task'):
            (tmp_path / name / f'{module}.py').write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rewrite(run, task=task)
    before = set(sys.modules)
    for read in (open_run, read_run_config):
        with pytest.raises(UserError) as caught:
            read(run)
        said = str(caught.value)
        assert said.startswith(f'{run / "config.json"}: task={task!r}: expected one of {TASKS}')
        assert ('Did you mean translation' in said) == task.startswith('transl')
    assert set(sys.modules) == before
    rewrite(run, task=None)
    with pytest.raises(UserError, match=r'config\.json: task=None: expected the name of a task'):
        open_run(run)


def test_a_config_of_another_task_is_refused_with_both_names(run: Path) -> None:
    rewrite(run, task='tagging')
    message = "task='tagging': expected a config of the task 'translation'"
    with pytest.raises(UserError, match=message) as caught:
        Run(run).read_config()
    assert str(caught.value).startswith(str(run / 'config.json'))
    with pytest.raises(UserError, match=message):
        from_json(to_json(Config()).replace('"translation"', '"tagging"'), Config)


@pytest.mark.parametrize(
    ('command', 'task', 'expected'),
    [
        ('train', 'tagging', f"task='tagging': expected one of {TASKS}"),
        (
            'show',
            'translation',
            "got a Other of the task 'translation', expected a flax_transformer.tasks.translation.",
        ),
    ],
)
def test_a_config_file_of_no_task_here_is_refused_by_name(command, task, expected, tmp_path: Path, capsys) -> None:
    other = f"make_dataclass('Other', [('seed', int, 0)], namespace={{'task': {task!r}}}, frozen=True)"
    (tmp_path / 'strange.py').write_text(f'from dataclasses import make_dataclass\nget_config = {other}\n')
    assert main([command, str(tmp_path / 'strange.py')]) == 2
    assert f'strange.py: {expected}' in capsys.readouterr().err


@pytest.fixture
def circle(tmp_path: Path) -> Path:
    """A run of the task 'circle', which is no folder of `tasks/`."""
    CircleRun(tmp_path / 'circle').open(CircleConfig())
    return tmp_path / 'circle'


@pytest.mark.parametrize('command', ['translate', 'score', 'export', 'warmup'])
def test_a_translation_command_refuses_a_run_of_another_task(circle: Path, command: str, capsys) -> None:
    assert main([command, str(circle)]) == 2
    assert f"{circle}: a run of the task 'circle'; expected a run of 'translation'" in capsys.readouterr().err


def test_commands_are_what_the_recipe_says(circle: Path, monkeypatch, capsys) -> None:
    def evaluated(runs, options, **_):
        print(f'{runs} {options.step}')

    command = Command(make_dataclass('Options', [('step', int, 1)]), evaluated)
    monkeypatch.setattr(toy_task, 'RECIPE', replace(toy_task.RECIPE, evaluate=None))
    assert main(['evaluate', str(circle)]) == 2
    assert "task='circle': its recipe has no evaluate" in capsys.readouterr().err
    monkeypatch.setattr(toy_task, 'RECIPE', replace(toy_task.RECIPE, evaluate=command))
    assert not main(['evaluate', str(circle), f'{circle}@last', '--step', '7'])
    assert capsys.readouterr().out == f"['{circle}', '{circle}@last'] 7\n"


@pytest.mark.slow
def test_a_run_of_another_task_is_averaged_wherever_it_was_trained(
    circle: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    config = CircleConfig(training=replace(toy_task.TRAINING, steps=2, checkpoint_every=1, evaluate_every=2))
    train(config, tmp_path / 'trained')
    CircleRun(tmp_path / 'trained').write_config(replace(config, parallel=ParallelConfig(num_devices=1000)))
    assert main(['average', str(tmp_path / 'trained'), str(tmp_path / 'mean'), '--last', '2']) == 0
    out = capsys.readouterr().out
    assert 'evaluate' not in out
    assert 'Next:\n  flax-transformer train CONFIG --init-from' in out
    assert CircleRun(tmp_path / 'mean').exists()
    (tmp_path / 'mine.py').write_text('from toy_task import CircleConfig as get_config\n')
    assert train_options(str(tmp_path / 'mine.py'), ['--init-from', str(tmp_path / 'mean')]).config == CircleConfig()


@pytest.mark.slow
def test_a_validation_set_is_scored_by_evaluate_and_may_be_an_array(tmp_path: Path, monkeypatch, capsys) -> None:
    class Held(toy_task.CircleTask):
        def prepare(self):
            return np.arange(2)

        def validation(self, prepared):
            for number in prepared:  # the last batch is cut short
                yield toy_task.Points(*(x[: 40 - 30 * number] for x in toy_task.draw(int(number))))

        def loss(self, params, batch, key):
            assert len(batch.x) == 40  # empty rows fill it up: one program, whatever the number of devices
            return super().loss(params, batch, key)

    monkeypatch.setattr(toy_task, 'RECIPE', declare(Held))
    short = replace(toy_task.TRAINING, steps=1, evaluate_every=1, checkpoint_every=1)
    run = train(CircleConfig(training=short), tmp_path / 'run')
    (scores,) = [record for record in read_metrics(run.path) if record['kind'] == 'validation']
    assert main(['evaluate', str(run.path), '--json']) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed['loss'], printed['accuracy']) == (scores['loss'], scores['accuracy'])
    run.write_config(replace(run.read_config(), parallel=ParallelConfig(num_devices=1000)))
    assert main(['evaluate', str(run.path), '--trust-data']) == 0, 'wherever it was trained'
    config, params = load_run(run.path)
    assert (config, {*params}) == (run.read_config(), {'first', 'second'})
    with pytest.raises(UserError, match='no checkpoint of step 7'):
        load_run(run.path, step=7)
    validate = held_out(lambda *_: 'validation')
    assert [validate(None, Mock(validation=rows), None) for rows in (np.zeros(2), np.zeros(0), None)] == [
        'validation',
        None,
        None,
    ]


def test_another_model_is_no_start(tmp_path: Path) -> None:
    short = replace(toy_task.TRAINING, steps=1, checkpoint_every=1)
    train(CircleConfig(training=short), tmp_path / 'run')
    with pytest.raises(UserError, match=r'another model: first is \(2, 16\) there, \(2, 8\) here'):
        train(CircleConfig(training=short, hidden=8), tmp_path / 'new', init_from=tmp_path / 'run')


def test_a_trainer_is_for_the_devices_that_are_given() -> None:
    trainer = make_trainer(CircleConfig(parallel=ParallelConfig('mesh', 2)), jax.devices()[3:5])
    assert list(np.ravel(trainer.devices.devices)) == jax.devices()[3:5]


def test_a_task_without_batch_shapes_is_shown_without_the_memory_of_a_step(circle: Path, capsys) -> None:
    assert main(['show', str(circle)]) == 0
    out, err = capsys.readouterr()
    assert 'in total' in out
    assert ('Memory per device' in out, err) == (False, '')


@pytest.fixture(scope='module')
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `run`, trained here by `circles.py`, then by `whole.py`, which has the config, too."""
    folder = tmp_path_factory.mktemp('own')
    (folder / 'circles.py').write_text((TESTS / 'toy_task.py').read_text().replace("'circle'", "'circles'"))
    (folder / 'mine.py').write_text('from circles import CircleConfig as get_config\n')
    (folder / 'whole.py').write_text((folder / 'circles.py').read_text() + '\nget_config = CircleConfig\n')
    program = (
        'import json\nfrom flax_transformer.cli import main\n'
        "short = ['--training.steps', '2', '--training.checkpoint-every', '1']\n"
        "assert main(['train', 'mine.py', '--workdir', 'run', *short]) == 0\n"
        "assert json.load(open('run/config.json'))['module'] == 'circles'\n"
        "assert main(['train', 'whole.py', '--workdir', 'run', '--training.steps', '3']) == 0\n"
    )
    command = [sys.executable, '-c', program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('Next:\n  flax-transformer curves run\n') == 2
    assert 'going on from step 2' in done.stderr
    assert json.loads((folder / 'run' / 'config.json').read_text())['module'] == 'whole'
    return folder


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that a test imports are forgotten."""
    for name in ('circles', 'whole'):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures('forgetful')
def test_a_run_trained_here_finds_its_module_from_any_folder(
    trained: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'whole.py').write_text("raise SystemExit('the module of another folder')\n")
    run = str(trained / 'run')
    path = list(sys.path)
    assert main(['average', run, 'mean', '--last', '2']) == 0
    assert sys.path == path
    assert main(['curves', run]) == 0
    assert main(['evaluate', run]) == 2
    assert 'its task has no validation set' in capsys.readouterr().err
    sys.modules.pop('whole')
    assert open_run('mean').path == Path('mean')  # what was made of it is remembered with its module, too
    monkeypatch.setitem(sys.modules, 'whole', ModuleType('whole'))
    assert main(['show', run]) == 2
    assert 'which is gone, or another of that name is in use' in capsys.readouterr().err


def test_the_module_of_a_task_may_be_a_package(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / '__init__.py').write_text((TESTS / 'toy_task.py').read_text())
    monkeypatch.syspath_prepend(tmp_path)
    assert home_of(importlib.import_module('mine').CircleConfig) == ('mine', tmp_path)


@pytest.mark.usefixtures('forgetful')
def test_no_module_is_imported_because_a_strangers_run_says_so(
    trained: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    theirs = tmp_path / 'theirs'
    shutil.copytree(trained / 'run', theirs)  # a run that was moved is a stranger's
    (theirs / 'whole.py').write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(theirs)
    monkeypatch.syspath_prepend('')
    assert main(['curves', '.']) == 2
    said = capsys.readouterr().err
    assert "its task 'circles' is in the module 'whole', which is imported only for a run that you trained here" in said
    assert 'set FLAX_TRANSFORMER_TASKS=whole, with its folder in $PYTHONPATH' in said
    monkeypatch.setenv('FLAX_TRANSFORMER_TASKS', 'whole')
    assert main(['curves', '.']) == 2
    assert 'inside of the run' in capsys.readouterr().err
    monkeypatch.chdir(trained)
    assert main(['curves', str(theirs)]) == 0
    monkeypatch.delenv('FLAX_TRANSFORMER_TASKS')
    assert main(['evaluate', str(theirs)]) == 2  # its module is in use, but its config is not trusted
    assert '--trust-data, once' in capsys.readouterr().err
    rewrite(theirs, module='..os')
    assert main(['curves', str(theirs)]) == 2
    assert "module='..os': expected the name of a module" in capsys.readouterr().err


def test_a_config_of_another_class_than_its_tasks_is_refused(tmp_path: Path) -> None:
    namespace = {'task': 'circle', '__annotations__': {'task': ClassVar[str]}, 'recipe_module': 'toy_task'}
    other = make_dataclass('Other', [], bases=(TaskConfig,), namespace=namespace, frozen=True, kw_only=True)
    with pytest.raises(UserError, match=r"got a Other of the task 'circle'"):
        train(other(), tmp_path / 'run')


def test_a_config_that_inherits_from_that_of_another_task_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(task: str, **more: str) -> type[CircleConfig]:
        namespace = {'task': task, '__annotations__': {'task': ClassVar[str]}, **more}
        return make_dataclass('WideConfig', [], bases=(CircleConfig,), namespace=namespace, frozen=True, kw_only=True)

    kind = wide('wide_circle', recipe_module='wide_circles')
    module = ModuleType('wide_circles')
    module.RECIPE = declare(type('Wide', (toy_task.CircleTask,), {'Config': kind}))
    monkeypatch.setitem(sys.modules, 'wide_circles', module)
    assert recipe_of(kind()) is module.RECIPE
    assert recipe_of(CircleConfig()) is toy_task.RECIPE
    with pytest.raises(UserError, match=r'has no RECIPE; set RECIPE = declare'):
        recipe_of(wide('other', recipe_module='math')())

"""Which task a run or a config is of; a stranger's file names no other module."""

import json
import os
import subprocess
import sys
from dataclasses import make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import toy_task
from conftest import TESTS, copy_config
from toy_runs import CircleRun
from toy_task import CircleConfig

from flax_transformer import train
from flax_transformer.cli import main
from flax_transformer.cli.train import train_options
from flax_transformer.common.config_json import from_json, task_of, to_json
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.tasks.find import config_class, open_run, read_run_config
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
    assert task_of((run / 'config.json').read_text()) == 'translation'
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


def test_evaluate_is_what_the_module_of_the_task_has_under_that_name(circle: Path, monkeypatch, capsys) -> None:
    assert main(['evaluate', str(circle)]) == 2
    assert "task='circle': it has no evaluate in toy_task; docs/how-to/tasks.md" in capsys.readouterr().err

    def evaluated(runs, options, **_):
        print(f'{runs} {options.step}')

    options = make_dataclass('EvaluateOptions', [('step', int, 1)])
    for name, value in {
        'EvaluateOptions': options,
        'DESCRIPTION': '',
        'defaults': lambda _: options(),
        'evaluate': evaluated,
    }.items():
        monkeypatch.setattr(toy_task, name, value, raising=False)
    assert not main(['evaluate', str(circle), f'{circle}@last', '--step', '7'])
    assert capsys.readouterr().out == f"['{circle}', '{circle}@last'] 7\n"


def test_a_run_of_another_task_is_averaged_wherever_it_was_trained(circle: Path, tmp_path: Path, capsys) -> None:
    config = CircleConfig(training=replace(toy_task.TRAINING, steps=2, checkpoint_every=1, evaluate_every=2))
    train(config, tmp_path / 'trained')
    CircleRun(tmp_path / 'trained').write_config(replace(config, parallel=ParallelConfig(num_devices=1000)))
    assert main(['average', str(tmp_path / 'trained'), str(tmp_path / 'mean'), '--last', '2']) == 0
    out = capsys.readouterr().out
    assert 'evaluate' not in out
    assert '--init-from' not in out  # runs of this task start from no other
    assert CircleRun(tmp_path / 'mean').exists()
    (tmp_path / 'mine.py').write_text('from toy_task import CircleConfig as get_config\n')
    assert train_options(str(tmp_path / 'mine.py'), ['--init-from', str(tmp_path / 'mean')]).config == CircleConfig()


def test_a_task_without_batch_shapes_is_shown_without_the_memory_of_a_step(circle: Path, capsys) -> None:
    assert main(['show', str(circle)]) == 0
    out, err = capsys.readouterr()
    assert 'in total' in out
    assert ('Memory per device' in out, err) == (False, '')


def test_a_task_in_one_file_anywhere_is_trained_resumed_and_averaged(tmp_path: Path, monkeypatch, capsys) -> None:
    """The config file may define the task, or import it from next to itself; later commands need its module."""
    (tmp_path / 'circles.py').write_text((TESTS / 'toy_task.py').read_text().replace("'circle'", "'circles'"))
    (tmp_path / 'mine.py').write_text('from circles import CircleConfig as get_config\n')
    (tmp_path / 'whole.py').write_text((tmp_path / 'circles.py').read_text() + '\nget_config = CircleConfig\n')
    program = (
        'import sys\nfrom flax_transformer.cli import main\n'
        "short = ['--training.steps', '2', '--training.checkpoint-every', '1']\n"
        "assert main(['train', 'mine.py', '--workdir', 'run', *short]) == 0\n"
        "assert main(['train', 'whole.py', '--workdir', 'run', '--training.steps', '3']) == 0\n"
    )
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    done = run([sys.executable, '-c', program])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('Next:\n  flax-transformer curves run\n') == 2
    assert 'going on from step 2' in done.stderr
    average = ['average', 'run', 'mean', '--last', '2']
    monkeypatch.chdir(tmp_path)
    assert main(average) == 2
    said = capsys.readouterr().err
    assert "config.json: task='circles': expected one of" in said
    assert 'For a task of your own, set FLAX_TRANSFORMER_TASKS to its module' in said
    command = [sys.executable, '-P', '-m', 'flax_transformer', *average]
    done = run(command, env=os.environ | {'FLAX_TRANSFORMER_TASKS': 'circles'})
    assert done.returncode == 0, done.stderr


def test_a_config_of_another_class_than_its_tasks_is_refused(tmp_path: Path) -> None:
    other = make_dataclass('Other', [], namespace={'task': 'circle'})
    with pytest.raises(UserError, match=r'got a Other, expected a toy_task\.CircleConfig'):
        train(other(), tmp_path / 'run')


def test_a_config_that_inherits_from_that_of_another_task_is_found() -> None:
    namespace = {'task': 'wide_circle', '__annotations__': {'task': ClassVar[str]}}
    wide = make_dataclass('WideConfig', [], bases=(CircleConfig,), namespace=namespace, frozen=True, kw_only=True)
    assert config_class('wide_circle') is wide
    assert config_class('circle') is CircleConfig

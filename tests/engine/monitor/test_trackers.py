"""Metrics to Weights & Biases and MLflow, with doubles in the place of their packages."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from loop_doubles import TRAIN

from flax_transformer.common.errors import Interrupted, UserError
from flax_transformer.engine.monitor import trackers
from flax_transformer.engine.monitor.reporter import Reporter


class Wandb(ModuleType):
    """What our client uses of the package; keeps what it is given."""

    def __init__(self) -> None:
        super().__init__('wandb')
        self.Settings = SimpleNamespace
        self.starts: list[dict[str, Any]] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.ends: list[int] = []
        self.fails = False

    def init(self, **settings: Any) -> Any:
        self.starts.append(settings)
        return SimpleNamespace(id=settings['id'] or 'new', log=self._log, finish=self._finish)

    def _log(self, values: dict[str, float], step: int) -> None:
        if self.fails:
            raise RuntimeError('no network\nand a long story')
        self.logged.append((step, values))

    def _finish(self, exit_code: int) -> None:
        self.ends.append(exit_code)


class Mlflow(ModuleType):
    def __init__(self) -> None:
        super().__init__('mlflow')
        self.MlflowClient = lambda: self
        self.runs: list[str] = []
        self.logged: list[tuple[str, str, float, int]] = []
        self.params: dict[str, str] = {}
        self.statuses: list[str] = []

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str) -> str:
        return 'experiment'

    def create_run(self, experiment: str, run_name: str) -> Any:
        self.runs.append(run_name)
        return SimpleNamespace(info=SimpleNamespace(run_id='new'))

    def update_run(self, run: str, status: str) -> None:
        self.statuses.append(f'{run} {status}')

    def set_terminated(self, run: str, status: str) -> None:
        self.statuses.append(f'{run} {status}')

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        self.logged += [(run, *metric) for metric in metrics]
        self.params |= dict(params)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(trackers, 'check_installed', lambda name: None)
    folder = tmp_path / 'mine'
    folder.mkdir()
    (folder / 'config.json').write_text('{"task": "translation", "model": {"d_model": 8}}')
    return folder


def test_weights_and_biases_gets_the_scalars_of_one_run_also_after_resuming(run: Path, monkeypatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, 'wandb', wandb)
    for first in (0, 5):
        with Reporter(run, steps=10, first_step=first, report_to='wandb') as reporter:
            reporter.train(first + 5, {'epoch': 0.5} | TRAIN)
            reporter.evaluation(first + 5, {'bleu': 30.0, 'bleu_signature': 'nrefs:1'}, seconds=1.0)
    assert [(start['id'], start['name'], start['resume']) for start in wandb.starts] == [
        (None, 'mine', 'allow'),
        ('new', 'mine', 'allow'),
    ]
    assert wandb.starts[0]['config'] == {'task': 'translation', 'model.d_model': 8}
    assert [step for step, _ in wandb.logged] == [5, 5, 10, 10]
    assert wandb.logged[0][1]['train/loss'] == 2.0
    assert wandb.logged[0][1]['train/epoch'] == 0.5
    assert wandb.logged[1][1] == {'validation/bleu': 30.0, 'validation/seconds': 1.0}
    assert wandb.ends == [0, 0]


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Mlflow:
    mlflow = Mlflow()
    entities = ModuleType('mlflow.entities')
    entities.Metric = lambda name, value, time, step: (name, value, step)
    entities.Param = lambda name, value: (name, value)
    monkeypatch.setitem(sys.modules, 'mlflow', mlflow)
    monkeypatch.setitem(sys.modules, 'mlflow.entities', entities)
    return mlflow


def test_mlflow_gets_the_scalars_of_one_run_also_after_resuming(run: Path, mlflow: Mlflow) -> None:
    for first in (0, 5):
        with Reporter(run, steps=10, first_step=first, report_to='mlflow') as reporter:
            reporter.train(first + 5, TRAIN)
    assert mlflow.runs == ['mine']
    assert [each for each in mlflow.logged if each[1] == 'train/loss'] == [
        ('new', 'train/loss', 2.0, 5),
        ('new', 'train/loss', 2.0, 10),
    ]
    assert mlflow.params == {'task': 'translation', 'model.d_model': '8'}
    assert mlflow.statuses == ['new FINISHED', 'new RUNNING', 'new FINISHED']


OF_A_LIBRARY = RuntimeError('of a library')
OF_A_LIBRARY.__cause__ = Interrupted('SIGTERM')


@pytest.mark.parametrize(
    ('error', 'exit_code', 'status'),
    [
        (UserError('not finite'), 1, 'FAILED'),
        (Interrupted('SIGTERM'), 255, 'KILLED'),
        (OF_A_LIBRARY, 255, 'KILLED'),
    ],
    ids=['failed', 'stopped', 'stopped_in_a_library'],
)
def test_trackers_learn_how_training_ended(
    run: Path, mlflow: Mlflow, monkeypatch, error: BaseException, exit_code: int, status: str
) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, 'wandb', wandb)
    for name in trackers.CLIENTS:
        with pytest.raises(type(error)), Reporter(run, steps=10, first_step=0, report_to=name):
            raise error
    assert wandb.ends == [exit_code]
    assert mlflow.statuses == [f'new {status}']


def test_a_tracker_that_fails_does_not_stop_training(run: Path, monkeypatch, capsys) -> None:
    wandb = Wandb()
    wandb.fails = True
    monkeypatch.setitem(sys.modules, 'wandb', wandb)
    with Reporter(run, steps=10, first_step=0, report_to='wandb') as reporter:
        reporter.train(5, TRAIN)
        reporter.train(10, TRAIN)
    assert capsys.readouterr().err.count('wandb gets no more metrics: no network\n') == 1
    assert len((run / 'metrics.jsonl').read_text().splitlines()) == 2


def test_a_tracker_that_cannot_start_or_is_missing_is_a_sentence(tmp_path: Path, monkeypatch) -> None:
    sentence = r"^training.report_to='mlflow' needs the package mlflow: pip install mlflow$"
    for found in (None, SimpleNamespace(origin=None)):  # nothing, and a folder of that name
        monkeypatch.setattr(trackers.importlib.util, 'find_spec', lambda name, found=found: found)
        with pytest.raises(UserError, match=sentence):
            Reporter(tmp_path, steps=10, first_step=0, report_to='mlflow')
    monkeypatch.setattr(trackers, 'check_installed', lambda name: None)
    wandb = Wandb()
    wandb.init = lambda **_: 1 / 0
    monkeypatch.setitem(sys.modules, 'wandb', wandb)
    with pytest.raises(UserError, match=r"^training.report_to='wandb': division by zero$"):
        Reporter(tmp_path, steps=10, first_step=0, report_to='wandb')
    (tmp_path / 'tracker.json').write_text('[]')
    with pytest.raises(UserError, match=r'tracker.json is damaged .*; remove it'):
        Reporter(tmp_path, steps=10, first_step=0, report_to='wandb')

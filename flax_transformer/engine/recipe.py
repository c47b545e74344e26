"""The recipe of a task in one class: what it need not say itself."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import jax

from flax_transformer.common.errors import UserError

from .batches import NumberedBatches, with_empty_rows
from .config import ParallelConfig, TaskConfig
from .fingerprint import fingerprint_of
from .monitor.reporter import NoReporter
from .runs.run_directory import RunDirectory, split_reference
from .runs.trust import refuse_stranger
from .task import Batch, Task, TrainState
from .task_value import Command, EvaluateOptions, Recipe, Training
from .trainer import Trainer
from .validation import Validation


def declare(task: type[Task], **own: Any) -> Recipe:
    """The recipe of a task in one class, which takes a config and has `Config`, `prepare` and `batch`.

    `own` are fields of `Training` and of `Recipe`.
    """
    config = task.Config

    class Run(own.pop('run', RunDirectory)):
        config_class = config
        init_params = staticmethod(lambda config, key: task(config).init(key))

    defaults = {
        'make_task': lambda config, devices: task(config),
        'prepare': lambda config, run, **_: task(config).prepare(),
        'fingerprint': lambda config, prepared: fingerprint_of(prepared),
        'batches': _TaskBatches,
        'validation': lambda config, prepared, trainer: _TaskValidation(prepared, trainer),
    }
    of_training = {field.name for field in dataclasses.fields(Training)} & own.keys()
    training = Training(**defaults | {name: own.pop(name) for name in of_training})

    def evaluate(runs: list[str], options: EvaluateOptions, **_: Any) -> None:
        for reference in runs:
            scores = _scores(recipe, reference, options)
            if options.json:
                print(json.dumps({'run': reference} | scores))
            else:
                print(', '.join([reference, *(f'{name} {value:.4g}' for name, value in scores.items())]))

    values = {
        'taken_over': ('model',) if 'model' in config.__dataclass_fields__ else (),
        'evaluate': Command(EvaluateOptions, evaluate, 'Scores trained models on their validation sets.'),
    }
    recipe = Recipe(config=config, run=Run, training=lambda: training, **values | own)
    return recipe


def _scores(recipe: Recipe, reference: str, options: EvaluateOptions) -> dict[str, Any]:
    path, _ = split_reference(reference)
    refuse_stranger(path, trust=options.trust_data)
    config, params, *_ = recipe.load(reference, step=options.step)
    training = recipe.training()
    prepared = training.prepare(config, recipe.run(path), start=None, processes=1)
    trainer = recipe.trainer(dataclasses.replace(config, parallel=ParallelConfig()), jax.devices()[:1])
    validate = training.validation(config, prepared, trainer)
    scores = validate(TrainState(0, params, None, None), NoReporter()) if validate else {}
    if not scores:
        raise UserError(f'{reference}: its task has no validation set; give it `validation(prepared)`')
    return scores


class _TaskBatches(NumberedBatches):
    def __init__(self, config: TaskConfig, prepared: Any, trainer: Trainer) -> None:
        super().__init__()
        self.name = f'the data of {config.task}'
        self._task = trainer.task
        self._prepared = prepared
        self._own_rows = trainer.own_rows
        self._rows_per_epoch = trainer.task.rows_per_epoch(prepared)

    def batch(self, number: int) -> Batch:
        return jax.tree.map(lambda x: x[self._own_rows], self._task.batch(self._prepared, number))

    def epoch(self, position: Any) -> float | None:
        return self._rows_per_epoch and position['batch'] * self._task.rows_per_step / self._rows_per_epoch


class _TaskValidation(Validation):
    predicts = False

    def __init__(self, prepared: Any, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._prepared = prepared

    def batches(self) -> Iterator[Batch]:
        task = self.trainer.task
        for batch in task.validation(self._prepared):
            yield with_empty_rows(batch, task.rows_per_step)

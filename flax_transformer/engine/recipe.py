"""A task as a value: what `engine.launch.train` needs of it; and validation during training."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from flax_transformer.engine.batches import Data, NumberedBatches
from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.task import Batch, Params, Task, TrainState
from flax_transformer.engine.train import Validate
from flax_transformer.engine.trainer import Trainer


class Validation:
    """`validation(state, reporter)` scores the parameters to keep: the moving average, if there is one."""

    predicts = True  # whether there is more to score than the batches' sums

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def batches(self) -> Iterable[Batch]:
        """The validation set, whose sums `Task.summarize` turns into scores; empty: no such scores."""
        return ()

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, Any]:
        """Further scores, JSON, of parameters that are whole; computed in process 0 alone."""
        return {}

    def __call__(self, state: TrainState, reporter: Reporter) -> dict[str, Any]:
        scores = self.trainer.evaluate(state.params_to_keep, self.batches())
        if self.predicts:
            params, step = self.trainer.devices.gather(state.params_to_keep), int(state.step)
            # Other processes wait for the first: scores decide when to stop, so all need the same.
            found = json.dumps(self.predict(params, step, reporter)) if multihost.is_first() else None
            scores |= json.loads(multihost.broadcast(f'scores after step {step}', found))
        return scores


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What one task does in its own way, in the order in which training asks for it. `declare` fills in defaults."""

    config: type[TaskConfig]
    run: type[RunDirectory]
    make_task: Callable[[Any, Devices], Task]  # takes a config, and devices that need not be present
    # Reads all data and raises UserError for whatever the user can fix. `start` is what `load` returned, or None;
    # `processes` may check a large corpus.
    prepare: Callable[..., Any] = lambda config, run, *, start, processes: None
    # Writes what the run needs besides its config, once all of it is found to be good. Process 0 alone calls it.
    keep: Callable[[Any, Any, Any], None] = lambda run, config, prepared: None
    batches: Callable[[Any, Any, Trainer], Data]  # takes the config and what was prepared
    validation: Callable[[Any, Any, Trainer], Validate | None] = lambda config, prepared, trainer: None
    # Makes what a trained run has besides parameters. A process that trains alone calls it, after the last step.
    finish: Callable[[Any, Any, Any], None] = lambda run, config, prepared: None
    # Initial parameters of a run that starts from no other; None: fresh ones.
    initial_params: Callable[[Any, Any], Params | None] = lambda config, prepared: None

    # Starting from another run (--init-from):
    load: Callable[[Any], Any] | None = None  # returns that run, a NamedTuple with `config` and `params`
    taken_over: tuple[str, ...] = ()  # sections that are that run's
    comes_along: str = 'config'  # what is taken over besides parameters, for messages

    def trainer(self, config: TaskConfig, devices: Sequence[jax.Device] | None = None) -> Trainer:
        """The compiled steps of a config, for `devices`, which need not be present; None: those that it asks for."""
        chosen = Devices(config.parallel, devices)
        return Trainer(self.make_task(config, chosen), config.engine, chosen)


def held_out(validation: Callable[[Any, Any, Trainer], Validate]) -> Callable[..., Validate | None]:
    """The validation of a recipe, or none where `prepared.validation` is None or empty."""
    return lambda config, prepared, trainer: validation(config, prepared, trainer) if prepared.validation else None


def declare(task: type[Task], **own: Any) -> Recipe:
    """The recipe of a task in one class, which takes a config and has `Config` and `batch(prepared, number)`.

    `own` are fields of `Recipe`.
    """
    config = task.Config
    defaults = {
        'config': config,
        'run': type('Run', (RunDirectory,), {'config_class': config}),
        'make_task': lambda config, devices: task(config),
        'batches': lambda config, prepared, trainer: _TaskBatches(trainer, prepared, config.task),
    }
    return Recipe(**defaults | own)


class _TaskBatches(NumberedBatches):
    """The batches that a task makes itself."""

    def __init__(self, trainer: Trainer, prepared: Any, name: str) -> None:
        super().__init__()
        self.name, self.fingerprint = name, getattr(prepared, 'fingerprint', name)
        self._task, self._prepared = trainer.task, prepared
        self._own_rows = trainer.devices.own_rows(trainer.task.rows_per_step)

    def batch(self, number: int) -> Batch:
        return jax.tree.map(lambda x: x[self._own_rows], self._task.batch(self._prepared, number))

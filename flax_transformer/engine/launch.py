"""Trains by a recipe: what happens in which order, for every task."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.config_json import check_fits
from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves

from . import fit
from .config import TaskConfig
from .devices import multihost
from .monitor.trackers import check_installed
from .runs.finished import steps_of
from .runs.run_directory import RunDirectory
from .session import preparing, run_session, training_in
from .task import Params
from .task_value import Recipe, Training


def launch(
    recipe: Recipe,
    config: TaskConfig,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
    peak_flops: Callable[[str, str], float | None] = lambda device_kind, dtype: None,
) -> RunDirectory:
    """Trains by a recipe, as `tasks.api.train` documents.

    `peak_flops` says how many FLOP/s one device can do, by its kind and the dtype; None: unknown.
    """
    run, began = recipe.run(workdir), time.perf_counter()
    config, needs_fit = fit.as_begun(config, run)
    run.check(config)
    check_installed(config.training.report_to)
    training = recipe.training()
    with training_in(run, exit_at_second=exit_at_second) as stop:
        trainer = recipe.trainer(config)
        before = run.read_config() if run.exists() else config
        trained = max(steps_of(run.checkpoints), default=0)
        start, their_params = None, []
        if init_from is not None and not steps_of(run.checkpoints):  # a run that goes on has parameters of its own
            start = _load_start(recipe, config, init_from, trainer.shapes.params)
            their_params, start = [start.params], start._replace(params=None)
        with preparing():
            common = {'start': start, 'processes': processes}
            if multihost.is_first():
                # A run keeps its own steps until more are fitted: else a start that does nothing loses them.
                keeps_steps = needs_fit or trained >= config.training.steps
                prepared = prepare(training, config, run, before if keeps_steps else config, **common)
                multihost.broadcast('the run is prepared', '')
            else:
                multihost.broadcast('the run is prepared')
                prepared = training.prepare(config, run, **common)
            batches = training.batches(config, prepared, trainer)
            validate = training.validation(config, prepared, trainer)
            if needs_fit:
                use_compilation_cache()
                config = fit.fitted(config, trainer, batches, validate, began=began)
                if multihost.is_first() and trained < config.training.steps:
                    run.open(config)
                trainer.reschedule(config.engine)
        if multihost.is_first():
            run.note_environment(str(trainer.devices))

        def initial_params() -> Params | None:
            # Called once at most; popping leaves no other reference to the parameters.
            return their_params.pop() if start else training.initial_params(config, prepared)

        devices = trainer.devices.devices
        peak = peak_flops(devices[0].device_kind, trainer.task.dtype)
        run_session(
            trainer,
            run,
            batches,
            fingerprint=training.fingerprint(config, prepared),
            stop=stop,
            validate=validate,
            initial_params=initial_params,
            peak_flops=peak and peak * len(devices),
            before=before.engine,
        )
        if multihost.count() == 1:
            training.finish(run, config, prepared)
    return run


def prepare(training: Training, config: TaskConfig, run: RunDirectory, written: TaskConfig, **options: Any) -> Any:
    """What training reads; writes a run's config, `written`, and a new one's files once all is found to be good.

    `options` of `Training.prepare`. Raises UserError for anything the user can fix.
    """
    prepared = training.prepare(config, run, **options)
    run.open(written)
    training.keep(run, config, prepared)
    return prepared


def _load_start(recipe: Recipe, config: TaskConfig, init_from: Path | str, shapes: Params) -> Any:
    """The run that a new one starts from. Raises UserError, which lists the fields, if its model differs."""
    start = recipe.load(init_from)
    other = replace(config, **{name: getattr(start.config, name) for name in recipe.taken_over})
    check_fits(init_from, other, config, comes_along=recipe.comes_along)
    theirs, ours = ({name: leaf.shape for name, leaf in named_leaves(tree)} for tree in (start.params, shapes))
    if other := [name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)]:
        name = min(other)
        raise UserError(
            f'{init_from} holds another model: {name} is {theirs.get(name, "missing")} there, '
            f'{ours.get(name, "missing")} here; take the values of its config that decide this'
        )
    return start

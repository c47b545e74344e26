"""Training a trigger word: config, recordings, scenes, steps, checkpoints."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flax_transformer.common.config_json import check_fits
from flax_transformer.engine import train as engine
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.trackers import check_installed
from flax_transformer.engine.runs.places import steps_of
from flax_transformer.tasks.trigger_word.batches import TrainingBatches
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.loading import load_run
from flax_transformer.tasks.trigger_word.model import init_params, with_statistics
from flax_transformer.tasks.trigger_word.preparation import prepare_run
from flax_transformer.tasks.trigger_word.run import Run
from flax_transformer.tasks.trigger_word.scenes import Scenes
from flax_transformer.tasks.trigger_word.task import make_trainer
from flax_transformer.tasks.trigger_word.validation import Validation

_SCENES_OF_STATISTICS = 32  # from which the mean and deviation of the features are taken


def train(
    config: Config,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> Run:
    """Trains the config's model in the run directory `workdir`, or resumes the run there.

    A new run may start from the parameters of another run of the same model, `init_from`, whatever its word.
    `processes` is ignored: preparation takes one.

    Raises UserError for the user's mistakes, before the first step and, in a new run, before a config is written. At
    SIGTERM or Ctrl-C, saves and raises Interrupted; at a second Ctrl-C, stops at once (`exit_at_second`: by ending the
    process).
    """
    run = Run(workdir)
    run.check(config)
    check_installed(config.training.report_to)
    with engine.training_in(run, exit_at_second=exit_at_second) as stop:
        trainer = make_trainer(config)
        before = run.read_config() if run.exists() else config
        start = None if init_from is None else _start(config, init_from)
        with engine.preparing():
            prepare = partial(prepare_run, config, run)
            prepared = multihost.first_then_others('the run is prepared', prepare, prepare)
        if multihost.is_first():
            run.note_environment(str(trainer.devices))
        rows = config.training.batch_size
        if start is None and not steps_of(run.checkpoints):
            start = _initial_params(config, prepared.train)
        engine.train(
            trainer,
            run,
            TrainingBatches(
                prepared.train,
                batch_size=rows,
                name=', '.join(config.data.train + config.data.train_background),
                own_rows=trainer.devices.own_rows(rows),
            ),
            stop=stop,
            validate=Validation(config, trainer, prepared.validation) if prepared.validation else None,
            params=start,
            before=before.engine,
        )
    return run


def _initial_params(config: Config, scenes: Scenes) -> Any:
    params = init_params(config.model, config.features, jax.random.key(config.seed))
    samples = np.stack([scenes.scene(number).samples for number in range(_SCENES_OF_STATISTICS)])
    return with_statistics(params, samples, config.features)


def _start(config: Config, init_from: Path | str) -> Any:
    """The parameters that a new run starts from. Raises UserError, which lists the fields, if the model is another."""
    start = load_run(init_from)
    other = replace(config, model=start.config.model, features=start.config.features)
    check_fits(init_from, other, config, comes_along='features')
    return start.params

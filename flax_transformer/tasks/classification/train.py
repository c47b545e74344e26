"""Training a classifier: config, vocabulary, batches, steps, checkpoints."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from flax_transformer.common.config_json import check_fits
from flax_transformer.data.pretrained import with_pretrained
from flax_transformer.engine import train as engine
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.trackers import check_installed
from flax_transformer.tasks.classification.batches import TrainingBatches
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.loading import LoadedRun, load_run
from flax_transformer.tasks.classification.model import init_params
from flax_transformer.tasks.classification.naive_bayes import with_naive_bayes
from flax_transformer.tasks.classification.preparation import Prepared, prepare_run
from flax_transformer.tasks.classification.run import Run
from flax_transformer.tasks.classification.task import make_trainer
from flax_transformer.tasks.classification.validation import Validation


def train(
    config: Config,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> Run:
    """Trains the config's model in the run directory `workdir`, or resumes the run there.

    A new run may start from the parameters, vocabulary and labels of another run of the same model, `init_from`.
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
        known = None if start is None else (start.vocabulary, start.labels)
        with engine.preparing():
            prepare = partial(prepare_run, config, run, known)
            prepared = multihost.first_then_others('the run is prepared', prepare, prepare)
        if multihost.is_first():
            run.note_environment(str(trainer.devices))
        batches = TrainingBatches(
            prepared.train,
            batch_size=config.training.batch_size,
            seed=config.seed,
            name=config.data.train,
            own_rows=trainer.devices.own_rows(config.training.batch_size),
        )
        engine.train(
            trainer,
            run,
            batches,
            stop=stop,
            validate=Validation(config, trainer, prepared.validation) if prepared.validation else None,
            params=_initial_params(config, prepared) if start is None else start.params,
            before=before.engine,
        )
    return run


def _initial_params(config: Config, prepared: Prepared) -> Any:
    """The parameters that a new run starts from; None: fresh ones."""
    if config.training.start == 'random' and prepared.pretrained is None:
        return None
    params = init_params(config.model, jax.random.key(config.seed))
    if prepared.pretrained is not None:
        embedding = params['encoder']['embedding']
        embedding['table'] = with_pretrained(embedding['table'], prepared.pretrained)
    if config.training.start == 'naive_bayes':
        params = with_naive_bayes(params, prepared.train, config.model.encoder)
    return params


def _start(config: Config, init_from: Path | str) -> LoadedRun:
    """The run that a new one starts from. Raises UserError, which lists the fields, if its model is another."""
    start = load_run(init_from)
    other = replace(config, model=start.config.model, tokenizer=start.config.tokenizer)
    check_fits(init_from, other, config, comes_along='vocabulary')
    return start

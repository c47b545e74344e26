"""Training word vectors: config, vocabulary, blocks, steps, checkpoints."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from flax_transformer.common.config_json import check_fits
from flax_transformer.engine import train as engine
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.trackers import check_installed
from flax_transformer.tasks.embeddings.batches import TrainingBatches
from flax_transformer.tasks.embeddings.config import Config
from flax_transformer.tasks.embeddings.loading import LoadedRun, load_run
from flax_transformer.tasks.embeddings.preparation import prepare_run
from flax_transformer.tasks.embeddings.run import Run
from flax_transformer.tasks.embeddings.task import make_trainer
from flax_transformer.tasks.embeddings.validation import Validation


def train(
    config: Config,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> Run:
    """Trains the config's vectors in the run directory `workdir`, or resumes the run there.

    A new run may start from the vectors and words of another run of the same model, `init_from`. `processes` is
    ignored: preparation takes one.

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
            prepare = partial(prepare_run, config, run, start and start.vocabulary)
            prepared = multihost.first_then_others('the run is prepared', prepare, prepare)
        if multihost.is_first():
            run.note_environment(str(trainer.devices))
        rows = config.training.blocks_per_step
        batches = TrainingBatches(
            prepared.train,
            rows=rows,
            seed=config.seed,
            name=config.data.train,
            fingerprint=prepared.fingerprint,
            own_rows=trainer.devices.own_rows(rows),
        )
        engine.train(
            trainer,
            run,
            batches,
            stop=stop,
            validate=Validation(trainer, prepared.validation) if prepared.validation else None,
            params=start and start.params,
            before=before.engine,
        )
    return run


def _start(config: Config, init_from: Path | str) -> LoadedRun:
    """The run that a new one starts from. Raises UserError, which lists the fields, if its model is another."""
    start = load_run(init_from)
    other = replace(config, model=start.config.model, tokenizer=start.config.tokenizer)
    check_fits(init_from, other, config, comes_along='vocabulary')
    return start

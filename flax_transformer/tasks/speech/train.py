"""Training speech to text: config, units, batches, steps, checkpoints."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from flax_transformer.common.config_json import check_fits
from flax_transformer.engine import train as engine
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.trackers import check_installed
from flax_transformer.tasks.speech import metrics
from flax_transformer.tasks.speech.batches import TrainingBatches
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.examples import Strings
from flax_transformer.tasks.speech.loading import LoadedRun, load_run
from flax_transformer.tasks.speech.preparation import Prepared, prepare_run
from flax_transformer.tasks.speech.run import Run
from flax_transformer.tasks.speech.task import make_trainer
from flax_transformer.tasks.speech.validation import Validation


def train(
    config: Config,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> Run:
    """Trains the config's model in the run directory `workdir`, or resumes the run there.

    A new run may start from the parameters and units of another run of the same model, `init_from`. `processes` is
    ignored: preparation takes one.

    Raises UserError for the user's mistakes, before the first step and, in a new run, before a config is written. At
    SIGTERM or Ctrl-C, saves and raises Interrupted; at a second Ctrl-C, stops at once (`exit_at_second`: by ending the
    process).
    """
    run = Run(workdir)
    run.check(config)
    check_installed(config.training.report_to)
    if config.data.validation:
        metrics.check_installed()
    with engine.training_in(run, exit_at_second=exit_at_second) as stop:
        trainer = make_trainer(config)
        before = run.read_config() if run.exists() else config
        start = None if init_from is None else _start(config, init_from)
        with engine.preparing():
            prepare = partial(prepare_run, config, run, None if start is None else start.units)
            prepared = multihost.first_then_others('the run is prepared', prepare, prepare)
            batches = training_batches(config, prepared, own_rows=trainer.devices.own_rows(config.training.batch_size))
        multihost.say(
            f'batches of {config.training.batch_size} utterances of up to '
            f'{", ".join(f"{length / config.features.sample_rate:.1f}" for length in batches.lengths)} s; padding is '
            f'{batches.padding():.0%} of the samples'
        )
        if multihost.is_first():
            run.note_environment(str(trainer.devices))
        validation = None
        if prepared.validation is not None:
            strings = isinstance(prepared.validation, Strings)
            numbers = list(range(config.strings.validation if strings else prepared.validation.count))
            validation = Validation(config, trainer, prepared.validation, numbers, prepared.units)
        engine.train(
            trainer,
            run,
            batches,
            stop=stop,
            validate=validation,
            params=None if start is None else start.params,
            before=before.engine,
        )
    return run


def training_batches(config: Config, prepared: Prepared, *, own_rows=None) -> TrainingBatches:
    """The batches of a run; with several processes, this one's rows of them."""
    return TrainingBatches(
        prepared.train,
        prepared.units.encode,
        batch_size=config.training.batch_size,
        speed=config.perturbation.speed,
        most_samples=config.most_samples,
        num_lengths=config.data.num_lengths,
        multiple=config.features.hop * config.model.stride,
        most_labels=prepared.most_labels,
        seed=config.seed,
        name=config.data.train,
        own_rows=own_rows,
    )


def _start(config: Config, init_from: Path | str) -> LoadedRun:
    """The run that a new one starts from. Raises UserError, which lists the fields, if its model is another."""
    start = load_run(init_from)
    other = replace(config, model=start.config.model, features=start.config.features, tokenizer=start.config.tokenizer)
    check_fits(init_from, other, config, comes_along='units')
    return start

"""Training a translation model: config, tokenizer, packed batches, steps, checkpoints."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from flax_transformer.common.config_json import check_fits
from flax_transformer.cost.chips import peak_flops
from flax_transformer.data.pretrained import with_pretrained
from flax_transformer.engine import train as engine
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.trackers import check_installed
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.inference.loading import LoadedRun, load_run
from flax_transformer.tasks.translation.model import family_of, source_table
from flax_transformer.tasks.translation.preparation import Prepared, prepare_run, read_prepared
from flax_transformer.tasks.translation.run import Run
from flax_transformer.tasks.translation.task import make_trainer
from flax_transformer.tasks.translation.training_data import TrainingData
from flax_transformer.tasks.translation.validation import Validation


def train(
    config: Config,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> Run:
    """Trains the config's model in the run directory `workdir`, or resumes the run there.

    A new run may start from the parameters and tokenizer of another run of the same model, `init_from`. `processes`
    check a large corpus before it is tokenized; with more than one, the calling program needs
    `if __name__ == '__main__':`.

    Raises UserError for the user's mistakes, before the first step and, in a new run, before a config or tokenizer is
    written. At SIGTERM or Ctrl-C, saves and raises Interrupted; at a second Ctrl-C, stops at once (`exit_at_second`:
    by ending the process).
    """
    run = Run(workdir)
    run.check(config)
    check_installed(config.training.report_to)
    with engine.training_in(run, exit_at_second=exit_at_second) as stop:
        trainer = make_trainer(config)
        before = run.read_config() if run.exists() else config
        start = {} if init_from is None else _start(config, init_from)._asdict()
        with engine.preparing():
            prepare = partial(prepare_run, config, run, has_start=bool(start))
            prepared = multihost.first_then_others(
                'the run is prepared',
                partial(prepare, processes=processes, tokenizer=start.get('tokenizer')),
                partial(read_prepared, config, run, has_start=bool(start)),
            )
        if multihost.is_first():
            run.note_environment(str(trainer.devices))
        validation = Validation(config, trainer, prepared.tokenizer, prepared.validation)
        engine.train(
            trainer,
            run,
            TrainingData(config, prepared, trainer.devices),
            stop=stop,
            validate=validation if prepared.validation else None,
            # The engine's alone, which lets go of them.
            params=start.pop('params') if start else _initial_params(config, prepared),
            peak_flops=_peak_flops(trainer),
            before=before.engine,
        )
    return run


def _initial_params(config: Config, prepared: Prepared) -> Any:
    """The parameters that a new run starts from; None: fresh ones."""
    if prepared.pretrained is None:
        return None
    params = family_of(config.model).init_params(config.model, jax.random.key(config.seed))
    embedding = params[source_table(config.model)]
    embedding['table'] = with_pretrained(embedding['table'], prepared.pretrained)
    return params


def _start(config: Config, init_from: Path | str) -> LoadedRun:
    """The run that a new one starts from. Raises UserError, which lists the fields, if its model is another."""
    start = load_run(init_from)
    other = replace(config, model=start.config.model, tokenizer=start.config.tokenizer)
    check_fits(init_from, other, config, comes_along='tokenizer')
    return start


def _peak_flops(trainer: Trainer) -> float | None:
    """Peak FLOP/s of all devices together; None if unknown."""
    devices = trainer.devices.devices
    peak = peak_flops(devices[0].device_kind, trainer.task.dtype)
    return peak and peak * len(devices)

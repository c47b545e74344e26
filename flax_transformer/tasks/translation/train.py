"""The whole way of a training run: config -> tokenizer -> batches -> steps -> checkpoints."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grain
import jax
import jax.numpy as jnp

from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError
from flax_transformer.cost.chips import peak_flops
from flax_transformer.engine import non_finite
from flax_transformer.engine.config.training import TrainingConfig
from flax_transformer.engine.devices import multihost as peers
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.devices.sharding import left_whole
from flax_transformer.engine.loop import NotFinite, Progress, fit
from flax_transformer.engine.monitor.early_stopping import Improvement
from flax_transformer.engine.monitor.profiler import Profile
from flax_transformer.engine.monitor.reporter import NoReporter, Reporter
from flax_transformer.engine.optimizer import make_schedule
from flax_transformer.engine.preemption import Stop, stop_on_signals
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.full_disk import going_on_where_full
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.state import TrainState, count_parameters
from flax_transformer.engine.step import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.flops import training_flops
from flax_transformer.tasks.translation.inference.loading import LoadedRun, load_run
from flax_transformer.tasks.translation.training_data import fingerprint_of, join_run, open_run, training_batches
from flax_transformer.tasks.translation.validation import Validation
from flax_transformer.transformer.blocks import compute_dtype


def train(
    config: Config,
    workdir: Path | str,
    *,
    init_from: Path | str | None = None,
    processes: int = 1,
    exit_at_second: bool = False,
) -> RunDirectory:
    """Trains the config's model into the run directory `workdir`, or goes on where the run there stopped.

    A new run may start from the parameters and the tokenizer of another, `init_from`, of the same model.
    `processes` check a large corpus before it is tokenised; more than one need `if __name__ == '__main__':` in the
    program that calls this.

    Everything that the user can have got wrong raises UserError before the first step, and before a config or a
    tokenizer is written where the run is new. At SIGTERM or Ctrl-C it saves and raises Interrupted; at a second Ctrl-C
    it leaves at once, with `exit_at_second` by ending the process.
    """
    run = RunDirectory(workdir)
    run.check(config)
    lock = run.in_use(say) if peers.is_first() else contextlib.nullcontext()
    with stop_on_signals(exit_at_second=exit_at_second) as stop, lock:
        if peers.count() > 1:
            stop.shared = peers.SharedStop()
        _train(config, run, stop, init_from, processes)
    return run


def _train(config: Config, run: RunDirectory, stop: Stop, init_from: Path | str | None, processes: int) -> None:
    trainer = Trainer(config)
    for line in left_whole(trainer.shapes.params, trainer.devices.mesh):
        say(f'whole on every device: {line}')
    before = run.read_config() if run.exists() else config
    start = None if init_from is None else _start(config, init_from)
    if peers.is_first():
        prepared = open_run(config, run, processes=processes, tokenizer=start.tokenizer if start else None)
        run.note_environment(str(trainer.devices))
        peers.share('the run is prepared', '')
    else:
        peers.share('the run is prepared')
        prepared = join_run(config, run)

    state = trainer.init_state(start.params if start else None)
    dataset = training_batches(config, prepared, trainer.devices)
    batches = iter(grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=2))
    fingerprint = fingerprint_of(prepared.corpora)
    peers.agree('the training data', fingerprint)
    checkpoints = Checkpoints(run.checkpoints, say=say, **which_to_keep(config.training))
    position: dict[str, Any] = {}
    try:
        if checkpoints.latest() is not None:
            state, position = checkpoints.restore(state)
            if position['data'] != fingerprint:
                trained = ', '.join(corpus.train for corpus in config.data.corpora)
                raise UserError(f'{trained} is not what {run.path} was trained on so far; give another --workdir')
            batches.set_state(position['batches'])
        first_step = int(state.step)
        progress = position.get('progress', {})
        if first_step >= config.training.steps and not progress.get('evaluate'):
            say(f'{run.path} is trained already, to step {first_step}; raise --training.steps to go on')
            return
        improvement = Improvement(config.training.best_by, progress.get('improvement'))
        if improvement.is_over(config.training.patience):
            say(
                f'{run.path} was stopped early, after step {first_step}: {improvement}; to go on, raise '
                f'--training.patience {config.training.patience}, or set it to 0'
            )
            return
        _say_where_the_rate_jumps(before, config, first_step)
        say(
            f'{count_parameters(state.params):,} parameters{_how_many_frozen(trainer, state)} on {trainer.devices}; '
            + (f'going on from step {first_step}' if first_step else f'{config.training.steps} steps')
        )
        make_reporter = Reporter if peers.is_first() else NoReporter
        with (
            make_reporter(run.path, steps=config.training.steps, first_step=first_step, **_work(trainer)) as reporter,
            contextlib.closing(_profile(config, run, reporter.say)) as profile,
        ):
            evaluate = Validation(trainer, prepared.tokenizer, prepared.validation, reporter)

            def save(state: TrainState, metrics: dict[str, float], progress: Progress) -> None:
                position = {'batches': batches.get_state(), 'data': fingerprint, 'progress': progress}
                is_over = Improvement(config.training.best_by, progress['improvement']).is_over(
                    config.training.patience
                )
                is_last = stop.after(int(state.step)) or is_over or int(state.step) >= config.training.steps
                goes_on = config.training.on_full_disk == 'go_on'
                with going_on_where_full(reporter.say) if goes_on else contextlib.nullcontext():
                    checkpoints.wait()  # a failure of the save before
                with going_on_where_full(reporter.say) if goes_on and not is_last else contextlib.nullcontext():
                    checkpoints.save(trainer.devices.everywhere(state), position, metrics)

            with stop.deferred():
                fit(
                    state,
                    batches,
                    trainer,
                    save=save,
                    reporter=reporter,
                    evaluate=evaluate,
                    progress=progress,
                    stop=stop,
                    profile=profile,
                    place=batches.get_state,
                    sentences=lambda place: {
                        corpus.name: numbers
                        for corpus, numbers in zip(config.data.corpora, dataset.sentences(place), strict=True)
                    },
                )
                checkpoints.wait()
    except NotFinite as found:
        gradients, sums = trainer.gradients(found.state._replace(step=found.state.step - 1), found.batch)
        params, gradients = map(trainer.devices.gather, (found.state.params, gradients))
        raise non_finite.report(run.path, found.step, found.batch, params, gradients, sums) from None
    finally:
        batches.close()
        checkpoints.close()


def _start(config: Config, init_from: Path | str) -> LoadedRun:
    """What a new run starts from. Raises UserError where it is another model than the config's, field by field."""
    start = load_run(init_from)
    other = start.config
    changed = changed_fields(replace(config, model=other.model, tokenizer=other.tokenizer), config)
    # These change neither the parameters nor what they mean.
    free = ('dropout_rate', 'attention_dropout_rate', 'activation_dropout_rate', 'attention', 'dtype')
    refused = [
        f'  {name}: {theirs!r} there, {ours!r} here'
        for name, (theirs, ours) in changed.items()
        if name.partition('.')[2] not in free
    ]
    if refused:
        raise UserError(
            f'{init_from} holds another model or vocabulary:\n'
            + '\n'.join(refused)
            + '\nTake its values: its parameters fit no other, and its tokenizer comes along'
        )
    return start


def _work(trainer: Trainer) -> dict[str, Any]:
    """What a step takes, and what the devices can do at the most."""
    config, devices = trainer.config, trainer.devices.devices
    peak = peak_flops(devices[0].device_kind, jnp.dtype(compute_dtype(config.model)).name)
    return {
        'slots_per_step': config.training.tokens_per_step,
        'flops_per_step': training_flops(config).total,
        'peak_flops': peak and peak * len(devices),
    }


def _profile(config: Config, run: RunDirectory, say: Callable[[str], None]) -> Profile:
    return Profile(run.path, config.training.profile_from, config.training.profile_steps, say)


def which_to_keep(config: TrainingConfig) -> dict[str, Any]:
    """The arguments of Checkpoints."""
    return {'keep_last': config.keep_last, 'keep_best': config.keep_best, 'best_by': config.best_by}


def _how_many_frozen(trainer: Trainer, state: TrainState) -> str:
    if trainer.is_frozen is None:
        return ''
    sizes = jax.tree.map(lambda frozen, x: x.size if frozen else 0, trainer.is_frozen, state.params)
    return f', {sum(jax.tree.leaves(sizes)):,} of them frozen,'


def _say_where_the_rate_jumps(before: Config, config: Config, step: int) -> None:
    """Linear and cosine schedules are made for their end: where it is moved, the learning rate is another at once."""
    old, new = (
        float(make_schedule(c.optimizer, d_model=c.model.d_model, steps=c.training.steps)(max(step, 1)))
        for c in (before, config)
    )
    if old != new:
        old_end, new_end = (c.optimizer.schedule_steps or c.training.steps for c in (before, config))
        say(
            f'the {config.optimizer.schedule} schedule ends at step {new_end} now, no longer at {old_end}: the rate '
            f'jumps from {old:.3g} to {new:.3g} (optimizer.schedule_steps, set from the start, lets a run go on)'
        )

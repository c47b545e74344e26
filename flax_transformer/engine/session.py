"""One session of training in a run directory: from the newest checkpoint, or from the beginning, to the last step."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import grain
import jax

from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import holder, in_use

from . import non_finite
from .batches import Data
from .config import EngineConfig
from .devices import multihost
from .devices.devices import NO_MESH
from .devices.sharding import replicated_despite_rule
from .loop import Loop, NotFinite, Profiler, Scores
from .monitor.progress import Progress
from .monitor.progress_bar import showing
from .monitor.reporter import NoReporter, Reporter
from .optimizer import make_schedule
from .preemption import Stop, stop_on_signals
from .runs.checkpoints import Checkpoints, tolerate_full_disk
from .runs.finished import nothing_left
from .runs.run_directory import RunDirectory
from .task import Params, TrainState, count_parameters
from .trainer import Trainer

Validate = Callable[[TrainState, Reporter], Scores]


@contextlib.contextmanager
def training_in(run: RunDirectory, *, exit_at_second: bool = False) -> Iterator[Stop]:
    """Locks the run directory and turns SIGTERM and Ctrl-C into a request to stop after the current step.

    Raises UserError if another process is training there. `exit_at_second`: a second Ctrl-C ends the process.
    """
    lock = in_use(run.path, say=multihost.say) if multihost.is_first() else contextlib.nullcontext()
    with stop_on_signals(exit_at_second=exit_at_second) as stop, lock, jax.set_mesh(NO_MESH):  # not the caller's
        if multihost.count() > 1:
            stop.shared = multihost.SharedStop()
        yield stop


def run_session(
    trainer: Trainer,
    run: RunDirectory,
    data: Data,
    *,
    fingerprint: str,
    stop: Stop,
    validate: Validate | None = None,
    initial_params: Callable[[], Params | None] = lambda: None,
    peak_flops: float | None = None,
    before: EngineConfig | None = None,
) -> None:
    """Trains in `run`, inside `training_in`, from the newest checkpoint to the config's last step.

    Args:
      fingerprint: a hash of all examples and their order; a position means nothing in other data.
      initial_params: returns those of a new run; None: fresh ones.
      peak_flops: FLOP/s of all devices together; None: unknown.
      before: the config that the run had so far.

    Raises UserError if the run's data has changed or its numbers are not finite; Interrupted, after saving, if asked to
    stop.
    """
    use_compilation_cache()
    config = trainer.config.training
    batches = iter(grain.experimental.ThreadPrefetchIterDataset(data, prefetch_buffer_size=8))
    multihost.agree('the training data', fingerprint)
    multihost.agree('the run directory', holder(run.path))  # else they would wait for each other at the first save
    kept = {name: getattr(config, name) for name in ('keep_last', 'keep_best', 'best_by')}
    checkpoints = Checkpoints(run.checkpoints, **kept, say=multihost.say)
    try:
        with preparing():
            if checkpoints.latest() is None:
                state, saved = trainer.init_state(initial_params()), {}
            else:
                state, saved = _resume(trainer, batches, checkpoints, data.name, fingerprint, run)
        step, progress = int(state.step), Progress(config, saved)
        owes = progress.owes_evaluation
        if message := nothing_left(run, config, step, progress.early_stopping, owes_evaluation=owes):
            multihost.say(message)
            return
        report_start(trainer, state, before)
        with (
            _open_reporter(trainer, run, step, progress, peak_flops) as reporter,
            contextlib.closing(Profiler(run.path, config.profile_from, config.profile_steps, reporter.say)) as profiler,
            stop.deferred(),
        ):
            Loop(
                trainer,
                batches,
                progress,
                data=data,
                save=_saver(checkpoints, trainer, batches, fingerprint),
                reporter=reporter,
                validate=validate and (lambda state: validate(state, reporter)),
                stop=stop,
                profiler=profiler,
            ).run(state)
            checkpoints.wait()
    except NotFinite as found:
        raise _report_non_finite(trainer, run, found) from None
    finally:
        batches.close()
        checkpoints.close()


def preparing() -> contextlib.AbstractContextManager[None]:
    """Shows `preparing` in the last line of a terminal, in process 0."""
    return showing('preparing') if multihost.is_first() else contextlib.nullcontext()


def _saver(
    checkpoints: Checkpoints, trainer: Trainer, batches: grain.DatasetIterator, fingerprint: str
) -> Callable[..., None]:
    """`save`, which on a full disk does what training.on_full_disk says."""
    is_tolerant = trainer.config.training.on_full_disk == 'go_on'

    def tolerance(applies: bool) -> contextlib.AbstractContextManager[None]:
        return tolerate_full_disk(multihost.say) if applies else contextlib.nullcontext()

    def save(state: TrainState, metrics: dict[str, float], progress: dict[str, Any], *, is_last: bool) -> None:
        position = {'batches': batches.get_state(), 'data': fingerprint, 'progress': progress}
        with tolerance(is_tolerant):
            checkpoints.wait()  # raises if the previous save failed
        with tolerance(is_tolerant and not is_last):
            checkpoints.save(state, position, metrics)

    return save


def _resume(
    trainer: Trainer,
    batches: grain.DatasetIterator,
    checkpoints: Checkpoints,
    name: str,
    fingerprint: str,
    run: RunDirectory,
) -> tuple[TrainState, dict[str, Any]]:
    """The newest checkpoint's state and progress; moves `batches` to its position."""
    state, position = checkpoints.restore(trainer.shapes)
    if position['data'] != fingerprint:
        raise UserError(f'{name} is not what {run.path} was trained on so far; give another --workdir')
    batches.set_state(position['batches'])
    return state, position.get('progress', {})


def _open_reporter(
    trainer: Trainer, run: RunDirectory, first_step: int, progress: Progress, peak_flops: float | None
) -> Reporter:
    """The run's reporter, which does nothing in any process but the first."""
    task, config = trainer.task, trainer.config.training
    if not multihost.is_first():
        return NoReporter()
    return Reporter(
        run.path,
        steps=config.steps,
        first_step=first_step,
        is_evaluated=not progress.owes_evaluation,
        report_to=config.report_to,
        every={'evaluating': config.evaluate_every, 'saving': config.checkpoint_every},
        amounts={task.slot_name: task.rows_per_step * task.slots_per_row} if task.slots_per_row > 1 else {},
        flops_per_step=task.flops_per_step,
        peak_flops=peak_flops,
    )


def _report_non_finite(trainer: Trainer, run: RunDirectory, found: NotFinite) -> UserError:
    """The error that names the first tensor that is not finite when the step is computed again."""
    before = found.state._replace(step=found.state.step - 1)
    if trainer.task.update is None:
        gradients, sums = trainer.gradients(before, found.batch)
    else:
        gradients, sums = {}, trainer.sums(before.params, found.batch)
    params, gradients = map(trainer.devices.gather, (found.state.params, gradients))
    return non_finite.report(run.path, found.step, found.batch, params, gradients, sums)


def report_start(trainer: Trainer, state: TrainState, before: EngineConfig | None) -> None:
    """Reports parameters, devices, the first step, and what may surprise; `before` is the config so far."""
    step, config = int(state.step), trainer.config
    for line in replicated_despite_rule(state.params, trainer.devices.mesh, trainer.task.sharding_rules):
        multihost.say(f'whole on every device: {line}')
    if step and before is not None:
        report_rate_jump(trainer, before, step)
    frozen = ''
    if trainer.is_frozen is not None:
        sizes = jax.tree.map(lambda is_frozen, x: x.size if is_frozen else 0, trainer.is_frozen, state.params)
        frozen = f', {sum(jax.tree.leaves(sizes)):,} of them frozen,'
    multihost.say(
        f'{count_parameters(state.params):,} parameters{frozen} on {trainer.devices}; '
        + (f'going on from step {step}' if step else f'{config.training.steps} steps')
    )


def report_rate_jump(trainer: Trainer, before: EngineConfig, step: int) -> None:
    """Warns if another end of the schedule, or a warm-up fitted to other steps, changes the learning rate at once."""
    config = trainer.config
    schedule = make_schedule(before.fitted_optimizer, d_model=trainer.task.d_model, steps=before.training.steps)
    old, new = (float(rate(max(step, 1))) for rate in (schedule, trainer.learning_rate))
    if old != new:
        old_end, new_end = (c.optimizer.schedule_steps or c.training.steps for c in (before, config))
        multihost.say(
            f'the {config.optimizer.schedule} schedule is for {new_end} steps now, no longer for {old_end}: the rate '
            f'jumps from {old:.3g} to {new:.3g} (optimizer.schedule_steps from the start lets linear and cosine go on)'
        )

"""One start of training, by a recipe: from a config to the last step of its run."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grain
import jax

from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.config_json import refused_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import in_use
from flax_transformer.common.trees import named_leaves

from . import fit, non_finite
from .batches import Data
from .config import EngineConfig, TaskConfig
from .devices import multihost
from .devices.devices import NO_MESH
from .devices.sharding import replicated_despite_rule
from .loop import Loop, Profiler
from .monitor.progress import Progress
from .monitor.progress_bar import showing
from .monitor.reporter import NoReporter, Reporter
from .monitor.trackers import check_installed
from .optimizer import make_schedule
from .preemption import Stop, stop_on_signals
from .runs.checkpoints import Checkpoints, tolerate_full_disk
from .runs.finished import nothing_left, steps_of
from .runs.run_directory import RunDirectory
from .task import Params, TrainState, count_parameters
from .task_value import Recipe, Training
from .trainer import Trainer
from .validation import Validate


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

    `peak_flops` are one device's FLOP/s by its kind and the dtype; None: unknown.
    """
    run = recipe.run(workdir)
    config, needs_fit = fit.as_begun(config, run)
    training = recipe.training()
    config = training.begin(config, run)
    run.check(config)
    check_installed(config.training.report_to)
    with _training_in(run, exit_at_second=exit_at_second) as stop:
        trainer = recipe.trainer(config)
        before = run.read_config() if run.exists() else config
        trained = max(steps_of(run.checkpoints), default=0)
        start = None
        if init_from is not None and not trained:  # a run that goes on has parameters of its own
            start = _load_start(recipe, config, init_from, trainer.shapes.params)
            their_params = [start.params]
            start = start._replace(params=None)

        with _preparing():
            # A run keeps its own steps until more are fitted: else a start that does nothing loses them.
            keeps_steps = needs_fit or trained >= config.training.steps
            written = before if keeps_steps else config
            prepared = _prepare_in_turn(training, config, run, written, start=start, processes=processes)
            batches = training.batches(config, prepared, trainer)
            validate = training.validation(config, prepared, trainer)
            if needs_fit:
                config = fit.fitted(config, batches)
                if multihost.is_first() and trained < config.training.steps:
                    run.open(config)
                trainer.set_steps(config.training.steps)

        if multihost.is_first():
            run.note_environment(str(trainer.devices))
            run.unfinished.touch()
        run_session(
            trainer,
            run,
            batches,
            fingerprint=training.fingerprint(config, prepared),
            stop=stop,
            validate=validate,
            # Called once at most; popping leaves no other reference to the parameters.
            initial_params=their_params.pop if start else partial(training.initial_params, config, prepared),
            peak_flops=peak_flops,
            before=before.engine,
            note_steps=partial(_note_steps, run, config),
            is_scored_first=start is not None,
        )
        training.finish(run, config, prepared)
        if multihost.is_first():
            run.unfinished.unlink(missing_ok=True)
    return run


def prepare(training: Training, config: TaskConfig, run: RunDirectory, written: TaskConfig, **options: Any) -> Any:
    """What training reads; writes a run's config, `written`, and a new one's files once all is found to be good."""
    prepared = training.prepare(config, run, **options)
    run.open(written)
    training.keep(run, config, prepared)
    return prepared


def _prepare_in_turn(
    training: Training, config: TaskConfig, run: RunDirectory, written: TaskConfig, **options: Any
) -> Any:
    if multihost.is_first():
        prepared = prepare(training, config, run, written, **options)
        multihost.broadcast('the run is prepared', '')
        return prepared
    multihost.broadcast('the run is prepared')
    return training.prepare(config, run, **options)


def _load_start(recipe: Recipe, config: TaskConfig, init_from: Path | str, shapes: Params) -> Any:
    start = recipe.load(init_from)
    other = replace(config, **{name: getattr(start.config, name) for name in recipe.taken_over})
    if refused := refused_fields(other, config, 'transferable'):
        raise UserError(
            f'{init_from} holds another model or vocabulary:\n{refused}\n'
            f'Take its values: its parameters fit no others, and its {recipe.comes_along} comes with them'
        )
    theirs, ours = ({name: leaf.shape for name, leaf in named_leaves(tree)} for tree in (start.params, shapes))
    if other := [name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)]:
        name = min(other)
        raise UserError(
            f'{init_from} holds another model: {name} is {theirs.get(name, "missing")} there, '
            f'{ours.get(name, "missing")} here; take the values of its config that decide this'
        )
    return start


@contextlib.contextmanager
def _training_in(run: RunDirectory, *, exit_at_second: bool = False) -> Iterator[Stop]:
    """Locks the run directory and turns SIGTERM and Ctrl-C into a request to stop after the current step."""
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
    validate: Validate | None,
    initial_params: Callable[[], Params | None],
    peak_flops: Callable[[str, str], float | None],
    before: EngineConfig,
    note_steps: Callable[[int], None],
    is_scored_first: bool,
) -> None:
    """Trains from the newest checkpoint, or from the beginning, to the last step; `before` is the config so far.

    Raises UserError if the run's data has changed or its numbers are not finite; Interrupted, after saving, if asked to
    stop.
    """
    use_compilation_cache()
    config = trainer.config.training
    batches = iter(grain.experimental.ThreadPrefetchIterDataset(data, prefetch_buffer_size=8))
    multihost.agree('the training data', fingerprint)
    multihost.agree_on_directory(run.path)
    kept = {name: getattr(config, name) for name in ('keep_last', 'keep_best', 'best_by')}
    checkpoints = Checkpoints(run.checkpoints, **kept, say=multihost.say)
    save = _saver(checkpoints, trainer, batches, fingerprint)
    try:
        with _preparing():
            if checkpoints.latest() is None:
                state = trainer.init_state(initial_params())
                position = {}
            else:
                state, position = checkpoints.restore(trainer.shapes)
                if position['data'] != fingerprint:
                    raise UserError(f'{data.name} is not what {run.path} was trained on so far; give another --workdir')
                random = position.get('random', _random_settings())
                if random != _random_settings():
                    raise UserError(
                        f'{run.path} was trained with {random}, got {_random_settings()}, which draws other random '
                        'numbers; set the former in the environment, or give another --workdir'
                    )
                batches.set_state(position['batches'])

        step = int(state.step)
        progress = Progress(config, position.get('progress', {}), step=step)
        if progress.clock:  # a killed run may have decided more than its checkpoint knows
            trainer.set_steps(progress.clock.steps)
            config = trainer.config.training
        progress.owes_evaluation |= is_scored_first and not step
        owes = progress.owes_evaluation
        if message := nothing_left(run, config, step, progress.early_stopping, owes_evaluation=owes):
            multihost.say(message)
            return

        report_start(trainer, state, before)
        with (
            _open_reporter(trainer, run, data, step, progress, peak_flops) as reporter,
            contextlib.closing(Profiler(run.path, config.profile_from, config.profile_steps, reporter.say)) as profiler,
            stop.deferred(),
        ):
            Loop(
                trainer,
                batches,
                progress,
                data=data,
                save=save,
                reporter=reporter,
                validate=validate and (lambda state: validate(state, reporter)),
                stop=stop,
                profiler=profiler,
                note_steps=note_steps,
            ).run(state)
            checkpoints.wait()
    except non_finite.NotFinite as failure:
        raise non_finite.report(trainer, run.path, failure) from None
    finally:
        batches.close()
        checkpoints.close()


def _random_settings() -> str:
    names = ('jax_default_prng_impl', 'jax_threefry_partitionable')
    return ' '.join(f'{name.upper()}={getattr(jax.config, name, None)}' for name in names)


def _note_steps(run: RunDirectory, config: TaskConfig, steps: int) -> None:
    if multihost.is_first():
        run.write_and_remember(replace(config, training=replace(config.training, steps=steps)))


def _preparing() -> contextlib.AbstractContextManager[None]:
    return showing('preparing') if multihost.is_first() else contextlib.nullcontext()


def _saver(
    checkpoints: Checkpoints, trainer: Trainer, batches: grain.DatasetIterator, fingerprint: str
) -> Callable[..., None]:
    """`Loop.save`, which on a full disk does what training.on_full_disk says."""
    is_tolerant = trainer.config.training.on_full_disk == 'go_on'

    def save(state: TrainState, metrics: dict[str, float], progress: dict[str, Any], *, is_last: bool) -> None:
        position = {'batches': batches.get_state(), 'data': fingerprint, 'progress': progress}
        position['random'] = _random_settings()
        with tolerate_full_disk(is_tolerant, multihost.say):
            checkpoints.wait()  # raises if the previous save failed
        with tolerate_full_disk(is_tolerant and not is_last, multihost.say):
            checkpoints.save(state, position, metrics)

    return save


def _open_reporter(
    trainer: Trainer,
    run: RunDirectory,
    data: Data,
    first_step: int,
    progress: Progress,
    peak_flops: Callable[[str, str], float | None],
) -> Reporter:
    if not multihost.is_first():
        return NoReporter()
    task = trainer.task
    config = trainer.config.training
    devices = trainer.devices.devices
    peak = peak_flops(devices[0].device_kind, task.dtype)
    return Reporter(
        run.path,
        steps=config.steps,
        first_step=first_step,
        is_evaluated=not progress.owes_evaluation,
        reads_data=not getattr(data, 'is_made', False),
        report_to=config.report_to,
        amounts={task.slot_name: task.rows_per_step * task.slots_per_row} if task.slots_per_row > 1 else {},
        flops_per_step=task.flops_per_step,
        peak_flops=peak and peak * len(devices),
    )


def report_start(trainer: Trainer, state: TrainState, before: EngineConfig) -> None:
    """Reports parameters, devices, the first step, and what may surprise."""
    for line in replicated_despite_rule(state.params, trainer.devices.mesh, trainer.task.sharding_rules):
        multihost.say(f'whole on every device: {line}')
    step = int(state.step)
    if step:
        report_rate_jump(trainer, before, step)
    frozen = ''
    if trainer.is_frozen is not None:
        sizes = jax.tree.map(lambda is_frozen, x: x.size if is_frozen else 0, trainer.is_frozen, state.params)
        frozen = f', {sum(jax.tree.leaves(sizes)):,} of them frozen,'
    length = f'going on from step {step}' if step else f'{trainer.config.training.steps} steps'
    multihost.say(f'{count_parameters(state.params):,} parameters{frozen} on {trainer.devices}; {length}')


def report_rate_jump(trainer: Trainer, before: EngineConfig, step: int) -> None:
    """Warns if another end of the schedule, or a warm-up fitted to other steps, changes the learning rate at once."""
    optimizer = trainer.config.optimizer
    lengths = {'steps': before.training.steps, 'is_fitted': before.training.is_fitted}
    schedule = make_schedule(before.optimizer, d_model=trainer.task.d_model, **lengths)
    old, new = (float(rate(max(step, 1))) for rate in (schedule, trainer.learning_rate))
    if old != new:
        multihost.say(
            f'the {optimizer.schedule} schedule is for {trainer.config.schedule_end} steps now, no longer for '
            f'{before.schedule_end}: the rate jumps from {old:.3g} to {new:.3g} (optimizer.schedule_steps from the '
            'start lets linear and cosine go on)'
        )

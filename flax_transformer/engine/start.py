"""Messages at the start of training."""

import jax

from flax_transformer.engine.config import EngineConfig, LoopConfig
from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.sharding import replicated_despite_rule
from flax_transformer.engine.monitor.progress import Progress
from flax_transformer.engine.optimizer import make_schedule
from flax_transformer.engine.runs.finished import nothing_left
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.engine.step import TrainState, count_parameters
from flax_transformer.engine.trainer import Trainer


def is_done(run: RunDirectory, config: LoopConfig, step: int, progress: Progress) -> bool:
    """Whether the run has nothing left to do; if so, reports what would make it go on."""
    message = nothing_left(run, config, step, progress.early_stopping, owes_evaluation=progress.owes_evaluation)
    if message is not None:
        multihost.say(message)
    return message is not None


def report_start(trainer: Trainer, state: TrainState, before: EngineConfig | None) -> None:
    """Reports parameters, devices, the first step, and what may surprise; `before` is the config so far."""
    step, config = int(state.step), trainer.config
    for line in replicated_despite_rule(state.params, trainer.devices.mesh, trainer.task.sharding_rules):
        multihost.say(f'whole on every device: {line}')
    if before is not None:
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
    """Warns if another end of a linear or cosine schedule changes the learning rate at once."""
    config = trainer.config
    schedule = make_schedule(before.optimizer, d_model=trainer.task.d_model, steps=before.training.steps)
    old, new = (float(rate(max(step, 1))) for rate in (schedule, trainer.learning_rate))
    if old != new:
        old_end, new_end = (c.optimizer.schedule_steps or c.training.steps for c in (before, config))
        multihost.say(
            f'the {config.optimizer.schedule} schedule ends at step {new_end} now, no longer at {old_end}: the rate '
            f'jumps from {old:.3g} to {new:.3g} (optimizer.schedule_steps, set from the start, lets a run go on)'
        )

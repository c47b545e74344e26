"""The config sections of the engine: the loop, the optimizer, the devices, and what the configs of all tasks share."""

import contextlib
import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check, check_positive, check_range, check_types, check_used, section, setting


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """The training section of any task, which inherits from it."""

    steps: int = setting(100_000, 'resumable', kw_only=False)  # updates in total, including those of earlier starts
    epochs: float = setting(0.0, 'resumable')  # passes over the data, instead of steps; 0: use steps
    # Time to train in, instead of steps, from the end of the first one on; as many as fit, by the clock. 0: use steps.
    minutes: float = setting(0.0, 'resumable')
    max_steps: int = setting(0, 'resumable')  # with minutes, the most steps; 0: as many as fit
    log_every: int = setting(50, 'resumable', 'cosmetic')  # steps
    evaluate_every: int = setting(1000, 'resumable')  # steps between evaluations on the validation sets
    checkpoint_every: int = setting(1000, 'resumable', 'cosmetic')  # steps; the last step is always saved
    keep_last: int = setting(2, 'resumable', 'cosmetic')  # newest checkpoints kept, besides the best
    keep_best: int = setting(1, 'resumable', 'cosmetic')  # best checkpoints kept, besides the newest
    average_last: int = setting(1, 'resumable')  # newest checkpoints whose mean is used for inference; 1: only the best
    best_by: str = setting('loss', 'resumable')  # validation score that decides which checkpoint is best
    patience: int = setting(0, 'resumable')  # evaluations in a row without a new best before training stops; 0: never
    max_skipped_steps: int = setting(10, 'resumable')  # non-finite steps in a row, each skipped, before training stops
    # What to do if the disk is full; go_on: try again at the next save.
    on_full_disk: Literal['stop', 'go_on'] = setting('stop', 'resumable', 'cosmetic')
    # Window of the running means of loss and gradient norm.
    smoothing_steps: int = setting(100, 'resumable', 'cosmetic')
    # A step this many standard deviations above the running mean is logged with its examples; 0: none.
    spike_deviations: float = setting(8.0, 'resumable', 'cosmetic')
    # A tracker that gets the metrics, too, by its own client: Weights & Biases or MLflow.
    report_to: Literal['none', 'wandb', 'mlflow'] = setting('none', 'resumable', 'cosmetic')
    int8_share: float = 0.0  # share of the steps, the last, for which matrices are rounded to eight bits
    profile_from: int = setting(0, 'resumable', 'cosmetic')  # first step of a jax.profiler trace; 0: no trace
    profile_steps: int = setting(3, 'resumable', 'cosmetic')  # steps in the trace

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'steps', 'log_every', 'evaluate_every', 'checkpoint_every', 'keep_last', 'keep_best')
        check_positive(self, 'max_skipped_steps', 'smoothing_steps', 'profile_steps')
        check(
            1 <= self.average_last <= self.keep_last,
            f'average_last={self.average_last}: expected 1 to keep_last={self.keep_last}, the checkpoints kept',
        )
        check_range(self, 'patience', 'spike_deviations', 'profile_from', 'epochs', 'minutes', 'max_steps', least=0)
        check_range(self, 'int8_share', least=0, most=1)
        check(not (self.epochs and self.minutes), f'epochs={self.epochs}, minutes={self.minutes}: expected one of them')

    @property
    def length_unit(self) -> str:
        """The field that decides how long training lasts."""
        if self.minutes and self.steps == self.max_steps:
            return 'max_steps'
        return next((name for name in ('epochs', 'minutes') if getattr(self, name)), 'steps')

    @property
    def is_fitted(self) -> bool:
        return bool(self.epochs or self.minutes)


@dataclass(frozen=True)
class OptimizerConfig:
    """How gradients change parameters. Defaults: Vaswani et al. 2017, section 5.3."""

    # muon: Muon (Jordan et al. 2024) for matrices within layers; adamw for the rest: embeddings, outputs
    name: Literal['adam', 'adamw', 'adafactor', 'lion', 'muon'] = 'adam'
    # How the learning rate changes after its warm-up.
    schedule: Literal['noam', 'inverse_sqrt', 'linear', 'cosine', 'constant'] = 'noam'
    # The peak; noam: a factor on d_model^-0.5 * min(step^-0.5, step * warmup^-1.5).
    learning_rate: float = 1.0
    warmup_steps: int = 4000  # steps over which the learning rate rises
    beta1: float = 0.9  # all but adafactor; Muon's momentum
    beta2: float = 0.98  # all but adafactor
    epsilon: float = 1e-9  # adam, adamw, and the AdamW of muon
    weight_decay: float = 0.0  # adamw, lion and muon; matrices only
    clip_norm: float | None = None  # clip the global gradient norm; None: never, as in the paper
    ema_decay: float = 0.0  # evaluate and keep an exponential moving average of the parameters; 0: off
    freeze: tuple[str, ...] = ()  # regular expressions; parameters whose whole path matches one stay fixed
    schedule_steps: int | None = setting(None, 'resumable')  # end of linear and cosine; None: training.steps

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'learning_rate', 'epsilon', 'clip_norm', above=0)
        check_range(self, 'warmup_steps', 'weight_decay', least=0)
        check_positive(self, 'schedule_steps')
        check(
            self.schedule not in ('noam', 'inverse_sqrt') or self.warmup_steps >= 1,
            f'warmup_steps=0: schedule {self.schedule} divides by it; expected at least 1',
        )
        check_range(self, 'beta1', 'beta2', 'ema_decay', least=0, below=1)
        check_used(self, 'weight_decay', 0, 'name', 'adamw', 'lion', 'muon')
        check_used(self, 'schedule_steps', None, 'schedule', 'linear', 'cosine')
        for pattern in self.freeze:
            try:
                re.compile(pattern)
            except re.error:
                raise UserError(f'freeze={pattern!r}: expected a regular expression, such as encoder/.*') from None


@dataclass(frozen=True)
class ParallelConfig:
    """Which devices to train on, and how; changes nothing but rounding (and, under pmap, dropout).

    A mesh has data * fsdp * tensor devices.
    """

    # pmap: data parallel, by jit(shard_map); mesh: jit over a mesh of three axes.
    strategy: Literal['pmap', 'mesh'] = setting('pmap', 'resumable')
    num_devices: int = setting(0, 'resumable')  # 0: all accelerators, or one CPU; CPU devices are simulated
    # mesh: devices that split only the rows of the batch; 0: as many as the other axes leave.
    data: int = setting(0, 'resumable')
    fsdp: int = setting(1, 'resumable')  # mesh: devices that split rows, parameters and moments
    tensor: int = setting(1, 'resumable')  # mesh: devices that split heads, inner units and vocabulary
    # Target slots per pass; a larger share of a batch takes several passes; 0: no limit.
    max_tokens_per_device: int = setting(0, 'resumable')
    # layers: keep only each layer's input and recompute the rest.
    remat: Literal['none', 'layers'] = setting('none', 'resumable')
    # Target slots whose logits a device holds; 0: what 32 MB hold (GPUs 512, CPUs 8), but at least 1,024 (CPUs 256).
    loss_chunk: int = setting(0, 'resumable')
    # pmap: what gradients are rounded to before they are summed over devices; bfloat16 sends half as much.
    sum_gradients_in: Literal['float32', 'bfloat16'] = setting('float32', 'resumable')
    # Processes that train together, as on several hosts; 0: ask SLURM, Open MPI or the TPU host.
    num_processes: int = setting(1, 'resumable')
    coordinator: str = setting('', 'resumable')  # HOST:PORT of process 0; '': found in the same way
    process_id: int | None = setting(None, 'resumable')  # number of this process, from 0; None: found in the same way
    # Seconds to wait for another process to start, or for a sign of life.
    process_timeout: int = setting(60, 'resumable')

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'num_devices', 'data', 'max_tokens_per_device', 'loss_chunk', 'num_processes', least=0)
        check_positive(self, 'fsdp', 'tensor', 'process_timeout')
        for name, default in (('data', 0), ('fsdp', 1), ('tensor', 1)):
            check_used(self, name, default, 'strategy', 'mesh')
        check_used(self, 'sum_gradients_in', 'float32', 'strategy', 'pmap')

        last = self.num_processes - 1 if self.num_processes else None
        check(
            self.process_id is None or (self.process_id >= 0 and (last is None or self.process_id <= last)),
            f'process_id={self.process_id}: expected 0 to num_processes - 1' + ('' if last is None else f' = {last}'),
        )
        host, _, port = self.coordinator.rpartition(':')
        check(
            not self.coordinator or (host != '' and port.isdecimal()),
            f'coordinator={self.coordinator!r}: expected HOST:PORT, such as node0:9911',
        )
        check(
            self.num_processes != 1 or not self.coordinator,
            f'coordinator={self.coordinator!r} has no effect with num_processes=1',
        )

        group = self.fsdp * self.tensor
        expected = f'{group * max(self.data, 1)}' + ('' if self.data else ' or a multiple')
        check(
            self.num_devices == 0 or (self.num_devices % group == 0 and self.data in (0, self.num_devices // group)),
            f'num_devices={self.num_devices}: expected data * fsdp * tensor = {expected}',
        )

    @property
    def least_devices(self) -> int:
        """num_devices or, if that is 0, as many as the mesh needs."""
        return self.num_devices or max(self.data, 1) * self.fsdp * self.tensor

    def prepare_devices(self, processes: int = 1) -> None:
        """Has JAX simulate CPU devices in this process; only possible before it initializes its back end."""
        count = -(-self.least_devices // processes)
        if count > 1:
            import jax

            with contextlib.suppress(RuntimeError):  # too late, which `get_devices` reports
                jax.config.update('jax_num_cpu_devices', count)


@dataclass(frozen=True)
class EngineConfig:
    optimizer: OptimizerConfig
    training: LoopConfig
    parallel: ParallelConfig
    seed: int = 0

    @property
    def schedule_end(self) -> int:
        return self.optimizer.schedule_steps or self.training.steps


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """One experiment. A task's config inherits from it and adds sections; config.json names the `task`."""

    task: ClassVar[str]
    recipe_module: ClassVar[str] = ''  # where the task's RECIPE is; '': in the module that defines the config

    optimizer: OptimizerConfig = section(OptimizerConfig)
    training: LoopConfig = section(LoopConfig)
    parallel: ParallelConfig = section(ParallelConfig)
    seed: int = 0  # decides the initial parameters, the order of the data and all that is random; at most 2^31 - 2

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'seed', least=0, most=2**31 - 2)
        check(
            not self.training.patience or self.has_validation,
            f'training.patience={self.training.patience} has no effect without a validation set (data.validation)',
        )

    @classmethod
    def declared_in(cls) -> str:
        """The module whose RECIPE is the task's, also if this class only changes another's defaults."""
        owner = next(kind for kind in cls.__mro__ if 'task' in vars(kind))
        return vars(owner).get('recipe_module') or owner.__module__

    @property
    def has_validation(self) -> bool:
        """Whether there is a validation set; a section `data` may say that there is none."""
        data = getattr(self, 'data', None)
        return bool(getattr(data, 'validation', True) or getattr(data, 'held_out', 0))

    @property
    def engine(self) -> EngineConfig:
        return EngineConfig(self.optimizer, self.training, self.parallel, self.seed)

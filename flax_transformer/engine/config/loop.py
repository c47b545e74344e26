"""How long to train, and when to report, evaluate and save."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.fields import check, check_positive, check_types, setting


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """The training section of any task, which inherits from it."""

    steps: int = setting(100_000, 'resumable', kw_only=False)  # updates in total, including those of earlier starts
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
    profile_from: int = setting(0, 'resumable', 'cosmetic')  # first step of a jax.profiler trace; 0: no trace
    profile_steps: int = setting(3, 'resumable', 'cosmetic')  # steps in the trace

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'steps', 'log_every', 'evaluate_every', 'checkpoint_every', 'keep_last', 'keep_best')
        check_positive(self, 'max_skipped_steps', 'smoothing_steps', 'profile_steps')
        check(
            1 <= self.average_last <= self.keep_last,
            f'average_last={self.average_last}: expected 1 to keep_last={self.keep_last}, the checkpoints there are',
        )
        for name in ('patience', 'spike_deviations', 'profile_from'):
            check(getattr(self, name) >= 0, f'{name}={getattr(self, name)}: expected at least 0')

"""How gradients become updates."""

import re
from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.fields import check, check_rates, check_types, setting


@dataclass(frozen=True)
class OptimizerConfig:
    """Defaults: section 5.3 of the paper."""

    # muon: Muon (Jordan et al. 2024) for the kernels of dense layers, adamw for the rest
    name: Literal['adam', 'adamw', 'adafactor', 'lion', 'muon'] = 'adam'
    # How the learning rate changes after its warm-up.
    schedule: Literal['noam', 'inverse_sqrt', 'linear', 'cosine', 'constant'] = 'noam'
    # The peak; noam: a factor on d_model^-0.5 * min(step^-0.5, step * warmup^-1.5).
    learning_rate: float = 1.0
    warmup_steps: int = 4000  # steps over which the learning rate rises
    beta1: float = 0.9  # all but adafactor; Muon's momentum
    beta2: float = 0.98  # all but adafactor
    epsilon: float = 1e-9  # adam and adamw
    weight_decay: float = 0.0  # adamw, lion and muon; matrices only
    clip_norm: float | None = None  # clip the global gradient norm; None: never, as in the paper
    ema_decay: float = 0.0  # evaluate and keep an exponential moving average of the parameters; 0: off
    freeze: tuple[str, ...] = ()  # regular expressions; parameters whose whole path matches one stay fixed
    schedule_steps: int | None = setting(None, 'resumable')  # end of linear and cosine; None: training.steps

    def __post_init__(self) -> None:
        check_types(self)
        check(self.learning_rate > 0, f'learning_rate={self.learning_rate}: expected more than 0')
        check(self.warmup_steps >= 0, f'warmup_steps={self.warmup_steps}: expected at least 0')
        check(
            self.schedule not in ('noam', 'inverse_sqrt') or self.warmup_steps >= 1,
            f'warmup_steps=0: schedule {self.schedule} divides by it; expected at least 1',
        )
        check_rates(self, 'beta1', 'beta2', 'ema_decay')
        check(self.epsilon > 0, f'epsilon={self.epsilon}: expected more than 0')
        check(self.weight_decay >= 0, f'weight_decay={self.weight_decay}: expected at least 0')
        check(
            self.weight_decay == 0 or self.name in ('adamw', 'lion', 'muon'),
            f'weight_decay={self.weight_decay} has no effect with name={self.name!r}; use adamw, lion or muon',
        )
        check(
            self.clip_norm is None or self.clip_norm > 0, f'clip_norm={self.clip_norm}: expected more than 0, or None'
        )
        for pattern in self.freeze:
            check(_is_regex(pattern), f'freeze={pattern!r}: expected a regular expression, such as encoder/.*')
        check(
            self.schedule_steps is None or self.schedule_steps >= 1,
            f'schedule_steps={self.schedule_steps}: expected at least 1, or None',
        )
        check(
            self.schedule_steps is None or self.schedule in ('linear', 'cosine'),
            f'schedule_steps={self.schedule_steps} has no effect with schedule={self.schedule!r}; it is for linear and '
            'cosine',
        )


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True

"""Running means of the loss and the gradient norm, and steps far above them."""

import math
from typing import Any

WATCHED = ('loss', 'grad_norm')


class LossSpikes:
    """Exponential running means and variances over about `window` steps; plain means until then."""

    def __init__(self, deviations: float, window: int, state: dict[str, Any] | None = None) -> None:
        """A step is a spike if it is more than `deviations` standard deviations above the mean; 0: no step is.

        Continues from what `state` returned, if given.
        """
        self.deviations, self.window = deviations, window
        known = state or {'steps': 0, 'mean': dict.fromkeys(WATCHED, 0.0), 'variance': dict.fromkeys(WATCHED, 0.0)}
        self.steps: int = known['steps']
        self.mean, self._variance = dict(known['mean']), dict(known['variance'])

    def state(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {'steps': self.steps, 'mean': dict(self.mean), 'variance': dict(self._variance)}

    def add(self, values: dict[str, float]) -> dict[str, float]:
        """Takes in a step's loss and, if it has one, grad_norm. Returns values, means, deviations of a spike, or {}.

        A value above the threshold counts as the threshold, so that one spike does not hide the next. The first
        `window` steps are never spikes.
        """
        found = {}
        rate = max(1.0 / self.window, 1.0 / (self.steps + 1))
        for name in [name for name in WATCHED if name in values]:  # no gradients in a task that updates itself
            value, mean, deviation = values[name], self.mean[name], math.sqrt(self._variance[name])
            if self.deviations and self.steps >= self.window:
                threshold = mean + self.deviations * deviation
                if value > threshold:
                    found |= {name: value, f'{name}_mean': mean, f'{name}_deviation': deviation}
                    value = threshold
            difference = value - mean
            self.mean[name] = mean + rate * difference
            self._variance[name] = (1.0 - rate) * (self._variance[name] + rate * difference * difference)
        self.steps += 1
        return found


def describe_spike(step: int, spike: dict[str, float]) -> str:
    """A spike as a message."""
    parts = [
        f'{name} {spike[name]:.4g} is far above its running mean of {spike[f"{name}_mean"]:.4g} '
        f'(standard deviation {spike[f"{name}_deviation"]:.2g})'
        for name in WATCHED
        if name in spike
    ]
    return f'step {step}: {" and ".join(parts)}; its examples are in metrics.jsonl'

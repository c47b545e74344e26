"""Which evaluation was best, and when to stop because none has been better for a while."""

import math
from typing import Any


def is_lower_better(score: str) -> bool:
    """Whether a lower score is better, by its name: true of losses, perplexities and error rates.

    >>> is_lower_better('loss'), is_lower_better('word_error_rate'), is_lower_better('bleu')
    (True, True, False)
    """
    return score.endswith(('loss', 'perplexity', 'error_rate'))


def rank(value: float, score: str) -> float:
    """The value with its sign set so that higher is better; NaN is worst."""
    if math.isnan(value):
        return -math.inf
    return -value if is_lower_better(score) else value


def rank_of_checkpoint(metrics: dict[str, float], score: str) -> float:
    """`rank` of a checkpoint by its metrics; one without this score, or with damaged metrics, is worst."""
    value = metrics.get(f'validation_{score}') if isinstance(metrics, dict) else None
    return rank(value if isinstance(value, (int, float)) else math.nan, score)


def checkpoint_metrics(scores: dict[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation, named as checkpoints keep them."""
    return {f'validation_{name}': value for name, value in scores.items() if isinstance(value, (int, float))}


class EarlyStopping:
    """The best evaluation so far and how many have come since; over after `patience` of them."""

    def __init__(self, score: str, patience: int, state: dict[str, Any] | None = None) -> None:
        """Continues from what `state` returned, if that was for the same score. With patience 0, is never over."""
        self.score, self.patience = score, patience
        known = state if state and state['by'] == score else {}
        self.best: float | None = known.get('best')
        self.step: int = known.get('step', 0)
        self.since: int = known.get('since', 0)

    def state(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {'by': self.score, 'best': self.best, 'step': self.step, 'since': self.since}

    def add(self, step: int, scores: dict[str, Any]) -> None:
        """Takes in an evaluation."""
        value = scores[self.score]
        is_better = self.best is None or rank(value, self.score) > rank(self.best, self.score)
        if is_better and not math.isnan(value):
            self.best, self.step, self.since = value, step, 0
        else:
            self.since += 1

    @property
    def is_over(self) -> bool:
        return 0 < self.patience <= self.since

    def __str__(self) -> str:
        best = 'was never a number' if self.best is None else f'was best at step {self.step} ({self.best:.4g})'
        return f'the validation {self.score} {best}, {self.since} evaluations ago'

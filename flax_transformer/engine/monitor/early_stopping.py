"""Which checkpoint is the best, and whether training still gets better: by loss or by BLEU on the validation sets."""

import math
from typing import Any

# What a checkpoint's metrics are called, by the name of the score.
CHECKPOINT_METRICS = {'loss': 'validation_loss', 'bleu': 'validation_bleu'}


def rank(score: float, by: str) -> float:
    """The score so that more is better; what is no number is worst."""
    return -math.inf if math.isnan(score) else -score if by == 'loss' else score


def rank_of_checkpoint(metrics: dict[str, float], by: str) -> float:
    """`rank` of a checkpoint by its metrics; one that was not measured by this score is worst."""
    return rank(metrics.get(CHECKPOINT_METRICS[by], math.nan), by)


def checkpoint_metrics(scores: dict[str, Any]) -> dict[str, float]:
    """What is kept of an evaluation with a checkpoint."""
    return {name: scores[score] for score, name in CHECKPOINT_METRICS.items() if score in scores}


class Improvement:
    """The best evaluation so far, and how many have come since that were no better."""

    def __init__(self, by: str, state: dict[str, Any] | None = None) -> None:
        """From what `state` gave, if it was of the same score; else as before the first evaluation."""
        self.by = by
        known = state if state and state['by'] == by else {}
        self.best: float | None = known.get('best')
        self.step: int = known.get('step', 0)
        self.since: int = known.get('since', 0)

    def state(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {'by': self.by, 'best': self.best, 'step': self.step, 'since': self.since}

    def add(self, step: int, scores: dict[str, Any]) -> None:
        """Takes in an evaluation."""
        score = scores[self.by]
        if not math.isnan(score) and (self.best is None or rank(score, self.by) > rank(self.best, self.by)):
            self.best, self.step, self.since = score, step, 0
        else:
            self.since += 1

    def is_over(self, patience: int) -> bool:
        """Whether so many evaluations in a row were no better; with 0, never."""
        return 0 < patience <= self.since

    def __str__(self) -> str:
        best = 'was never a number' if self.best is None else f'was best at step {self.step} ({self.best:.4g})'
        return f'the validation {"BLEU" if self.by == "bleu" else self.by} {best}, {self.since} evaluations ago'

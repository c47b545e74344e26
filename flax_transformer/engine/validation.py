"""Validation during training."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from .devices import multihost
from .monitor.reporter import Reporter
from .task import Batch, Params, TrainState
from .trainer import Trainer

Validate = Callable[[TrainState, Reporter], dict[str, Any]]  # returns the scores of a state, {} without data


class Validation:
    """`validation(state, reporter)` scores the parameters to keep: the moving average, if there is one."""

    predicts = True  # whether there is more to score than the batches' sums

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def batches(self) -> Iterable[Batch]:
        """The validation set, whose sums `Task.summarize` turns into scores; empty: no such scores."""
        return ()

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, Any]:
        """Further scores, JSON, of parameters that are whole; computed in process 0 alone."""
        return {}

    def __call__(self, state: TrainState, reporter: Reporter) -> dict[str, Any]:
        scores = self.trainer.evaluate(state.params_to_keep, self.batches())
        if self.predicts:
            params = self.trainer.devices.gather(state.params_to_keep)
            step = int(state.step)
            # Other processes wait for the first: scores decide when to stop, so all need the same.
            predicted = json.dumps(self.predict(params, step, reporter)) if multihost.is_first() else None
            scores |= json.loads(multihost.broadcast(f'scores after step {step}', predicted))
        return scores


def held_out(validation: Callable[[Any, Any, Trainer], Validate]) -> Callable[..., Validate | None]:
    """The validation of a recipe, or none where `prepared.validation` is None or has no rows."""

    def validate(config: Any, prepared: Any, trainer: Trainer) -> Validate | None:
        data = prepared.validation
        is_empty = data is None or (hasattr(data, '__len__') and not len(data))
        return None if is_empty else validation(config, prepared, trainer)

    return validate

"""Validation during training: sums over batches in all processes, predictions in the first."""

import json
from collections.abc import Iterable
from typing import Any

from flax_transformer.engine.devices import multihost
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.step import TrainState
from flax_transformer.engine.task import Batch, Params
from flax_transformer.engine.trainer import Trainer


class Validation:
    """`validation(state, reporter)` scores the parameters to keep: the moving average, if there is one."""

    predicts = True  # whether there is more to score than the batches' sums

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def batches(self) -> Iterable[Batch]:
        """The validation set, whose sums `Task.summarize` turns into scores; empty: none of them."""
        return ()

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, Any]:
        """Further scores, JSON, of parameters that are whole; computed in process 0 alone."""
        return {}

    def __call__(self, state: TrainState, reporter: Reporter) -> dict[str, Any]:
        scores = self.trainer.evaluate(state.params_to_keep, self.batches())
        if self.predicts:
            params, step = self.trainer.devices.gather(state.params_to_keep), int(state.step)
            # Other processes wait for the first: scores decide when to stop, so all need the same.
            found = json.dumps(self.predict(params, step, reporter)) if multihost.is_first() else None
            scores |= json.loads(multihost.share(f'scores after step {step}', found))
        return scores

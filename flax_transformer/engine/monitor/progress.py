"""Loop state saved with checkpoints, so that metrics and patience resume exactly."""

from typing import Any

from flax_transformer.engine.config import LoopConfig
from flax_transformer.engine.monitor.early_stopping import EarlyStopping
from flax_transformer.engine.monitor.loss_spikes import LossSpikes
from flax_transformer.engine.monitor.metric_window import MetricWindow
from flax_transformer.engine.task import Task


class Progress:
    """Metrics since the last report, the best evaluation, running means; and whether an evaluation was cut short."""

    def __init__(self, task: Task, config: LoopConfig, saved: dict[str, Any] | None = None) -> None:
        """Continues from what `to_json` returned, if given."""
        saved = saved or {}
        self.window = MetricWindow(task, saved.get('window'))
        self.early_stopping = EarlyStopping(config.best_by, config.patience, saved.get('improvement'))
        self.spikes = LossSpikes(config.spike_deviations, config.smoothing_steps, saved.get('spikes'))
        self.owes_evaluation = bool(saved.get('evaluate'))

    def to_json(self) -> dict[str, Any]:
        """All of it, for JSON."""
        parts = {
            'window': self.window.state(),
            'improvement': self.early_stopping.state(),
            'spikes': self.spikes.state(),
        }
        return parts | ({'evaluate': True} if self.owes_evaluation else {})

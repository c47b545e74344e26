"""The detection of a trigger word as a value."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.engine.task_value import Command, Picture, Recipe, Training

from .config import TriggerWordConfig
from .run import Run, load_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from flax_transformer.data.audit.report import Report


def training() -> Training:
    from .training import TRAINING

    return TRAINING


def evaluate() -> Command:
    from .evaluate import DESCRIPTION, EvaluateOptions, evaluate

    return Command(EvaluateOptions, evaluate, DESCRIPTION)


def check(config: TriggerWordConfig, workdir: Path | None, **how: Any) -> 'Report':
    from .corpus_checks import report_of

    return report_of(config, workdir, **how)


def propose() -> Command:
    from .new_config import NewOptions, propose

    return Command(NewOptions, propose)


def draw_recording(run: str, recording: str) -> 'Figure':
    from .detector import Detector
    from .pictures import plot_recording

    return plot_recording(Detector.from_run(run), recording)


def draw_curve(file: str) -> 'Figure':
    from flax_transformer.tasks.evaluation import printed_scores

    from .pictures import plot_scores

    with printed_scores(file, 'a trigger word') as scores:
        return plot_scores(scores)


PICTURES = {
    'trigger': Picture('RUN RECORDING', draw_recording),
    'detection': Picture('SCORES.json', draw_curve),
}


RECIPE = Recipe(
    config=TriggerWordConfig,
    run=Run,
    training=training,
    load=load_run,
    taken_over=('model', 'features'),
    comes_along='features',
    evaluate=evaluate,
    check=check,
    propose=propose,
    pictures=PICTURES,
)

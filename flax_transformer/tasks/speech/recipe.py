"""Speech to text as a value."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.engine.task_value import Command, Picture, Recipe, Training

from .config import SpeechConfig
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


def check(config: SpeechConfig, workdir: Path | None, **how: Any) -> 'Report':
    from .corpus_checks import report_of

    return report_of(config, workdir, **how)


def propose() -> Command:
    from .new_config import NewOptions, propose

    return Command(NewOptions, propose)


def draw_recording(run: str, recording: str) -> 'Figure':
    from .pictures import plot_recording
    from .transcriber import Transcriber

    return plot_recording(Transcriber.from_run(run), recording)


def draw_confusion(file: str) -> 'Figure':
    from flax_transformer.tasks.evaluation import printed_scores

    from .pictures import plot_scores

    with printed_scores(file, 'a speech run on single words') as scores:
        return plot_scores(scores)


PICTURES = {
    'speech': Picture('RUN RECORDING', draw_recording),
    'confusion': Picture('SCORES.json', draw_confusion),
}


RECIPE = Recipe(
    config=SpeechConfig,
    run=Run,
    training=training,
    load=load_run,
    taken_over=('model', 'features', 'tokenizer'),
    comes_along='units',
    evaluate=evaluate,
    check=check,
    propose=propose,
    pictures=PICTURES,
)

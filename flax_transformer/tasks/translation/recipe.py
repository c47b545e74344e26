"""Translation as a value."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.engine.task_value import Command, Picture, Recipe, Training

from .config import Config
from .run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from flax_transformer.data.audit.report import Report

    from .loading import LoadedRun


def training() -> Training:
    from .training import TRAINING

    return TRAINING


def load(reference: Path | str, *, step: int | None = None) -> 'LoadedRun':
    from .loading import load_run

    return load_run(reference, step=step)


def evaluate() -> Command:
    from .evaluate import DESCRIPTION, EvaluateOptions, evaluate

    return Command(EvaluateOptions, evaluate, DESCRIPTION)


def check(config: Config, workdir: Path | None, **how: Any) -> 'Report':
    from .corpus_checks import report_of

    return report_of(config, workdir, **how)


def propose() -> Command:
    from .new_config import NewOptions, propose

    return Command(NewOptions, propose)


def _picture(kind: str, takes: str, *options: str) -> Picture:
    def draw(*names: str, **given: str | None) -> 'Figure':
        from .pictures import DRAW

        return DRAW[kind](*names, **given)

    return Picture(takes, draw, options)


_ATTENTION = {kind: _picture(kind, 'RUN LINE', 'translation') for kind in ('attention', 'heads', 'layers')}
_OF_LINE = {kind: _picture(kind, 'RUN LINE') for kind in ('alignment', 'tree', 'quality')}
PICTURES = _ATTENTION | _OF_LINE | {'lengths': _picture('lengths', 'SCORES.json ...')}


RECIPE = Recipe(
    config=Config,
    run=Run,
    training=training,
    load=load,
    taken_over=('model', 'tokenizer'),
    comes_along='tokenizer',
    evaluate=evaluate,
    check=check,
    propose=propose,
    pictures=PICTURES,
)

"""Classification of texts as a value."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.engine.task_value import Command, Recipe, Training

from .config import ClassificationConfig
from .run import Run, load_run

if TYPE_CHECKING:
    from flax_transformer.data.audit.report import Report


def training() -> Training:
    from .training import TRAINING

    return TRAINING


def evaluate() -> Command:
    from .evaluate import DESCRIPTION, EvaluateOptions, evaluate

    return Command(EvaluateOptions, evaluate, DESCRIPTION)


def check(config: ClassificationConfig, workdir: Path | None, **how: Any) -> 'Report':
    from .corpus_checks import report_of

    return report_of(config, workdir, **how)


def propose() -> Command:
    from .new_config import NewOptions, propose

    return Command(NewOptions, propose)


RECIPE = Recipe(
    config=ClassificationConfig,
    run=Run,
    training=training,
    load=load_run,
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
    evaluate=evaluate,
    check=check,
    propose=propose,
)

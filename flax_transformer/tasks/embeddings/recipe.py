"""Word vectors as a value."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.engine.task_value import Command, Recipe, Training

from .config import EmbeddingsConfig
from .run import Run, load_run

if TYPE_CHECKING:
    from flax_transformer.data.audit.report import Report


def training() -> Training:
    from .training import TRAINING

    return TRAINING


def evaluate() -> Command:
    from .evaluate import DESCRIPTION, EvaluateOptions, evaluate

    return Command(EvaluateOptions, evaluate, DESCRIPTION)


def check(config: EmbeddingsConfig, workdir: Path | None, **how: Any) -> 'Report':
    from .corpus_checks import report_of

    return report_of(config, workdir, **how)


def propose() -> Command:
    from .new_config import NewOptions, propose

    return Command(NewOptions, propose)


RECIPE = Recipe(
    config=EmbeddingsConfig,
    run=Run,
    training=training,
    load=load_run,
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
    evaluates_files=True,
    evaluate=evaluate,
    check=check,
    propose=propose,
)

"""Classification of texts as a value."""

from flax_transformer.engine.task_value import Recipe, later

from .config import ClassificationConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = Recipe(
    config=ClassificationConfig,
    run=Run,
    training=later(__package__, 'training', 'training'),
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
    evaluate=EVALUATE,
    check=later(__package__, 'corpus_checks', 'report_of'),
    propose=PROPOSE,
)

"""Word vectors as a value."""

from flax_transformer.engine.task_value import Recipe, later

from .config import EmbeddingsConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = Recipe(
    config=EmbeddingsConfig,
    run=Run,
    training=later(__package__, 'training', 'training'),
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
    evaluates_files=True,
    evaluate=EVALUATE,
    check=later(__package__, 'corpus_checks', 'report_of'),
    propose=PROPOSE,
)

"""Classification of texts as a value."""

from flax_transformer.engine.task_value import package_recipe

from .config import ClassificationConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = package_recipe(
    __package__,
    config=ClassificationConfig,
    run=Run,
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
    evaluate=EVALUATE,
    propose=PROPOSE,
)

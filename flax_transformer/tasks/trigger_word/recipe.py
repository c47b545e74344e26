"""The detection of a trigger word as a value."""

from flax_transformer.engine.task_value import Picture, later, package_recipe

from .config import TriggerWordConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = package_recipe(
    __package__,
    config=TriggerWordConfig,
    run=Run,
    taken_over=('model', 'features'),
    comes_along='features',
    evaluate=EVALUATE,
    propose=PROPOSE,
    pictures={
        'trigger': Picture('RUN RECORDING', later(__package__, 'pictures', 'draw_recording')),
        'detection': Picture('SCORES.json', later(__package__, 'pictures', 'draw_scores')),
    },
)

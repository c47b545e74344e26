"""The detection of a trigger word as a value."""

from flax_transformer.engine.task_value import Picture, Recipe, later

from .config import TriggerWordConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = Recipe(
    config=TriggerWordConfig,
    run=Run,
    training=later(__package__, 'training', 'training'),
    taken_over=('model', 'features'),
    comes_along='features',
    evaluate=EVALUATE,
    check=later(__package__, 'corpus_checks', 'report_of'),
    propose=PROPOSE,
    pictures={
        'trigger': Picture('RUN RECORDING', later(__package__, 'pictures', 'draw_recording')),
        'detection': Picture('SCORES.json', later(__package__, 'pictures', 'draw_scores')),
    },
)

"""Speech to text as a value."""

from flax_transformer.engine.task_value import Picture, later, package_recipe

from .config import SpeechConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = package_recipe(
    __package__,
    config=SpeechConfig,
    run=Run,
    taken_over=('model', 'features', 'tokenizer'),
    comes_along='units',
    evaluate=EVALUATE,
    propose=PROPOSE,
    pictures={
        'speech': Picture('RUN RECORDING', later(__package__, 'pictures', 'draw_recording')),
        'confusion': Picture('SCORES.json', later(__package__, 'pictures', 'draw_scores')),
    },
)

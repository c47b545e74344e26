"""Speech to text as a value."""

from flax_transformer.engine.task_value import Picture, Recipe, later

from .config import SpeechConfig
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run

RECIPE = Recipe(
    config=SpeechConfig,
    run=Run,
    training=later(__package__, 'training', 'training'),
    taken_over=('model', 'features', 'tokenizer'),
    comes_along='units',
    evaluate=EVALUATE,
    check=later(__package__, 'corpus_checks', 'report_of'),
    propose=PROPOSE,
    pictures={
        'speech': Picture('RUN RECORDING', later(__package__, 'pictures', 'draw_recording')),
        'confusion': Picture('SCORES.json', later(__package__, 'pictures', 'draw_scores')),
    },
)

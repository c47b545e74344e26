"""Translation as a value."""

from flax_transformer.engine.task_value import Picture, later, package_recipe

from .config import Config
from .evaluate import EVALUATE
from .new_config import PROPOSE
from .run import Run


def _picture(kind: str, takes: str, *options: str) -> Picture:
    return Picture(takes, later(__package__, 'pictures', f'draw_{kind}'), options)


_ATTENTION = {kind: _picture(kind, 'RUN LINE', 'translation') for kind in ('attention', 'heads', 'layers')}
_OF_LINE = {kind: _picture(kind, 'RUN LINE') for kind in ('alignment', 'tree', 'quality')}


RECIPE = package_recipe(
    __package__,
    config=Config,
    run=Run,
    taken_over=('model', 'tokenizer'),
    comes_along='tokenizer',
    evaluate=EVALUATE,
    propose=PROPOSE,
    pictures=_ATTENTION | _OF_LINE | {'lengths': _picture('lengths', 'SCORES.json ...')},
)

"""The Transformer of "Attention Is All You Need" in JAX and Flax: train, evaluate, translate.

from flax_transformer import Translator
print(Translator.from_run('runs/number_words')('forty-two'))
"""

TYPE_CHECKING = False  # type checkers know it; Ctrl-C during the import of `typing` would print a traceback
if TYPE_CHECKING:
    from typing import Any

    from flax_transformer.common import __version__
    from flax_transformer.common.errors import UserError
    from flax_transformer.tasks.api import load_config, train
    from flax_transformer.tasks.classification.classifier import Classification, Classifier
    from flax_transformer.tasks.embeddings.vectors import WordVectors
    from flax_transformer.tasks.speech.transcriber import Transcriber, Transcript
    from flax_transformer.tasks.translation.config import Config
    from flax_transformer.tasks.translation.inference.result import Translation
    from flax_transformer.tasks.translation.inference.translator import Translator
    from flax_transformer.tasks.trigger_word.detector import Detector, Hit

_HOMES = {
    'Classification': 'tasks.classification.classifier',
    'Classifier': 'tasks.classification.classifier',
    'Config': 'config',
    'Detector': 'tasks.trigger_word.detector',
    'Hit': 'tasks.trigger_word.detector',
    'Transcriber': 'tasks.speech.transcriber',
    'Transcript': 'tasks.speech.transcriber',
    'Translation': 'tasks.translation.inference.result',
    'Translator': 'tasks.translation.inference.translator',
    'UserError': 'common.errors',
    'WordVectors': 'tasks.embeddings.vectors',
    '__version__': 'common',
    'load_config': 'tasks.api',
    'train': 'tasks.api',
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> 'Any':
    # Imported when first used: translating must not wait for the import of what only training needs.
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    import importlib

    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

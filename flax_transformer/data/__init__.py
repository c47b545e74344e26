"""From a corpus by name to packed batches: sources, packing, the reader that Grain drives."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flax_transformer.data.batches import Batch, PackedBatches, loss_batches, validation_batches
    from flax_transformer.data.corpus import Pairs
    from flax_transformer.data.sources import open_corpus, read_corpus
    from flax_transformer.data.tokenized import TokenizedPairs, tokenize

_HOMES = {
    'Batch': 'batches',
    'PackedBatches': 'batches',
    'Pairs': 'corpus',
    'TokenizedPairs': 'tokenized',
    'loss_batches': 'batches',
    'open_corpus': 'sources',
    'read_corpus': 'sources',
    'tokenize': 'tokenized',
    'validation_batches': 'batches',
}
__all__ = [
    'Batch',
    'PackedBatches',
    'Pairs',
    'TokenizedPairs',
    'loss_batches',
    'open_corpus',
    'read_corpus',
    'tokenize',
    'validation_batches',
]


def __getattr__(name: str) -> Any:
    # Imported when first used: reading a corpus must not wait for JAX and Grain, which only batches need.
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    import importlib

    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)

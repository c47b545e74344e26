"""From a corpus by name to packed batches: sources, the cache of ids, the plan, the reader that Grain drives."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flax_transformer.data.batches import Batch, PackedBatches, loss_batches, validation_batches
    from flax_transformer.data.cache import PreparedPairs
    from flax_transformer.data.corpus import Corpus, Pairs
    from flax_transformer.data.order import Order, shares
    from flax_transformer.data.plan import Plan, Sampling
    from flax_transformer.data.sources import open_corpus, read_corpus
    from flax_transformer.data.tokenized import TokenizedPairs, tokenize

_HOMES = {
    'Batch': 'batches',
    'Corpus': 'corpus',
    'Order': 'order',
    'PackedBatches': 'batches',
    'Pairs': 'corpus',
    'Plan': 'plan',
    'PreparedPairs': 'cache',
    'Sampling': 'plan',
    'TokenizedPairs': 'tokenized',
    'loss_batches': 'batches',
    'open_corpus': 'sources',
    'read_corpus': 'sources',
    'shares': 'order',
    'tokenize': 'tokenized',
    'validation_batches': 'batches',
}
__all__ = [
    'Batch',
    'Corpus',
    'Order',
    'PackedBatches',
    'Pairs',
    'Plan',
    'PreparedPairs',
    'Sampling',
    'TokenizedPairs',
    'loss_batches',
    'open_corpus',
    'read_corpus',
    'shares',
    'tokenize',
    'validation_batches',
]


def __getattr__(name: str) -> Any:
    # Imported when first used: reading a corpus must not wait for JAX and Grain, which only batches need.
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    import importlib

    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)

"""From a corpus by name to packed batches: sources, the cache of ids, the plan, the reader that Grain drives."""

from flax_transformer.data.batches import Batch, PackedBatches, loss_batches, validation_batches
from flax_transformer.data.cache import PreparedPairs
from flax_transformer.data.corpus import Corpus, Pairs
from flax_transformer.data.order import Order, shares
from flax_transformer.data.plan import Plan, Sampling
from flax_transformer.data.sources import open_corpus, read_corpus
from flax_transformer.data.tokenized import TokenizedPairs, tokenize

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

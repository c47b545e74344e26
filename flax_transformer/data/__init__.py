"""From a corpus by name to packed batches: sources, packing, the reader that Grain drives."""

from flax_transformer.data.batches import Batch, PackedBatches, loss_batches, validation_batches
from flax_transformer.data.corpus import Pairs
from flax_transformer.data.sources import open_corpus, read_corpus
from flax_transformer.data.tokenized import TokenizedPairs, tokenize

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

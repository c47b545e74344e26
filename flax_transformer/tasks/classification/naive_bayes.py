"""Embeddings that begin with what naive Bayes knows of each token.

The log-count ratios of tokens are strong features for short texts (Wang and Manning 2012); as initial embeddings they
are adjusted by training (Li et al. 2016).
"""

from typing import Any

import jax
import numpy as np

from flax_transformer.tasks.classification.batches import EncodedTexts
from flax_transformer.tasks.classification.vocabulary import PAD_ID

# What an average of log-ratios is multiplied by for logits; naive Bayes itself would take their number.
CONFIDENCE = 8.0


def log_ratios(texts: EncodedTexts, vocab_size: int, num_classes: int) -> np.ndarray:
    """[V, C] float32: log p(token | label) minus its mean over the labels; 0 for a token that is in no text.

    A token counts once a text; add-one smoothed.
    """
    counts = np.zeros((num_classes, vocab_size))
    for row, label in zip(texts.tokens, texts.labels, strict=True):
        counts[label, np.unique(row)] += 1
    is_known = counts.sum(axis=0) > 0
    is_known[PAD_ID] = False
    logs = np.log(counts + 1) - np.log((counts + 1)[:, is_known].sum(axis=1, keepdims=True))
    return np.where(is_known, logs - logs.mean(axis=0), 0).T.astype(np.float32)


def with_naive_bayes(params: Any, texts: EncodedTexts, encoder: str) -> Any:
    """The parameters with the log-ratios as the first values of each embedding.

    The average also gets the output layer that makes a naive Bayes classifier of it.
    """
    params = jax.tree.map(np.array, jax.device_get(params))
    table, output = params['encoder']['embedding']['table'], params['output']['kernel']
    num_classes = output.shape[1]
    table[:, :num_classes] = log_ratios(texts, len(table), num_classes)
    if encoder == 'average':
        output[:num_classes] = CONFIDENCE * np.eye(num_classes)
    return params

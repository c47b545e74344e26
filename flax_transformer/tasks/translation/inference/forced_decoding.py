"""Log-probabilities of given targets, without ever holding all logits."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.engine.losses import cross_entropy, cut
from flax_transformer.tasks.translation.model import TranslationModel

CHUNK = 1024  # target slots whose logits are in memory at once


def target_log_probs(
    members: Sequence[tuple[TranslationModel, Any]],
    source: jax.Array,
    target_in: jax.Array,
    target: jax.Array,
    *,
    mean: str = 'log_probability',
) -> jax.Array:
    """Log-probabilities [B, T] of the target ids under the mean of the models, as `decoding.search` computes it.

    Logits of CHUNK slots of each model are in memory at once, or of one slot of each sentence if B is larger: 131 MB
    for 32,000 pieces. For a model without `hidden` and `project` those of all slots are.

    Args:
      members: models with their variables.
    """
    is_chunked = [hasattr(model, 'hidden') and hasattr(model, 'project') for model, _ in members]
    hidden = tuple(
        model.apply(variables, source, target_in, method='hidden' if chunked else None)
        for (model, variables), chunked in zip(members, is_chunked, strict=True)
    )

    def of_chunk(chunk: tuple[tuple[jax.Array, ...], jax.Array]) -> jax.Array:
        of_members, targets = chunk
        logits = [
            (model.apply(variables, x, method='project') if chunked else x).astype(jnp.float32)
            for (model, variables), chunked, x in zip(members, is_chunked, of_members, strict=True)
        ]
        if mean == 'probability':
            each = jnp.stack([-cross_entropy(one, targets)[1] for one in logits])
            return jax.nn.logsumexp(each, axis=0) - jnp.log(len(logits))
        # Log-probabilities are logits less a constant, so their mean, normalized, is that of the logits.
        return -cross_entropy(sum(logits) / len(logits), targets)[1]

    batch, length = target.shape
    count = -(-length // max(1, CHUNK // batch))
    if count == 1:
        return of_chunk((hidden, target))
    chunks = jax.lax.map(of_chunk, jax.tree.map(lambda x: cut(x, count), (hidden, target)))  # [count, B, width]
    return jnp.moveaxis(chunks, 0, 1).reshape(batch, -1)[:, :length]

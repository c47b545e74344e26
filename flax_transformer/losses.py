"""Cross-entropy as (sum, count), so that any split of a batch adds up to the same loss."""

import jax
import jax.numpy as jnp


def cross_entropy(
    logits: jax.Array, targets: jax.Array, weights: jax.Array, *, label_smoothing: float = 0.0
) -> tuple[jax.Array, jax.Array]:
    """Sum of -sum_v q(v) log p(v) over tokens, in nats, and the sum of the weights.

    q gives 1 - label_smoothing to the target and spreads the rest evenly over the other V - 1 pieces
    (Vaswani et al. 2017, section 5.4, as in tensor2tensor). Divide once, by the count over all devices.

    Args:
      logits: [..., V].
      targets: [...] ids.
      weights: [...] 1 for a real token, 0 for padding.
    """
    logits = logits.astype(jnp.float32)
    others = label_smoothing / (logits.shape[-1] - 1)
    target_logits = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    # Since q sums to 1: -sum_v q(v) (z_v - logsumexp z) = logsumexp z - sum_v q(v) z_v. No one-hot targets needed.
    loss = jax.nn.logsumexp(logits, axis=-1) - (1.0 - label_smoothing - others) * target_logits
    if label_smoothing:
        loss = loss - others * logits.sum(axis=-1)
    weights = weights.astype(jnp.float32)
    return (loss * weights).sum(), weights.sum()

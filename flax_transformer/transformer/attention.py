"""Attention: equation 1, its masks, and the multi-head layer (Vaswani et al. 2017, section 3.2).

Shapes: B batch, T queries, S keys, H heads, K head_dim, D d_model, W hypotheses.
Masks are boolean, True = may attend, and broadcast to [B, H, T, S].
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.dense import Dense, side_by_side
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.product import mixed_einsum
from flax_transformer.transformer.cache import KVCache, heads_first
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.variants import additive_scores, fused_attention


def padding_mask(tokens: jax.Array, pad_id: int) -> jax.Array:
    """Mask [B, 1, 1, S] that hides padding keys, from token ids [B, S].

    >>> padding_mask(jnp.array([[7, 4, 0]]), pad_id=0)[0, 0].astype(int).tolist()
    [[1, 1, 0]]
    """
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length: int) -> jax.Array:
    """Mask [1, 1, T, T] under which position t sees positions 0 to t (section 3.2.3).

    >>> causal_mask(3)[0, 0].astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return jnp.tril(jnp.ones((length, length), bool))[None, None]


def segment_mask(query_ids: jax.Array, key_ids: jax.Array) -> jax.Array:
    """Mask [B, 1, T, S] under which tokens of a packed row see only their own sentence.

    Ids [B, T] and [B, S] number the sentences of a row from 1; 0 is padding, which neither sees nor is seen.

    >>> segment_mask(jnp.array([[1, 2, 0]]), jnp.array([[1, 1, 2, 0]]))[0, 0].astype(int).tolist()
    [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    """
    same = query_ids[:, :, None] == key_ids[:, None, :]
    return (same & (key_ids != 0)[:, None, :])[:, None]


def scaled(q: jax.Array, scale: float | None = None) -> jax.Array:
    """q / sqrt(K) of queries [..., K]: their products with keys have variance 1 where both have. Or q * `scale`."""
    return q * (q.shape[-1] ** -0.5 if scale is None else scale)


def products_with_keys(q: jax.Array, k: jax.Array, axes: str = 'BTHK,BSHK->BHTS') -> jax.Array:
    """q k^T in float32, whatever the inputs; `axes` are those of q, k and the products."""
    return jnp.einsum(axes, q, k, preferred_element_type=jnp.float32)


def masked_softmax(scores: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Weights over the last axis; a query that may attend to nothing gets equal weights, never NaN."""
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    return jax.nn.softmax(scores, axis=-1)


def weighted_values(weights: jax.Array, v: jax.Array, axes: str = 'BHTS,BSHK->BTHK') -> jax.Array:
    """The sums of values under weights; `axes` are those of weights, values and sums."""
    return mixed_einsum(axes, weights, v)


def attention_weights(
    q: jax.Array, k: jax.Array, mask: jax.Array | None = None, *, scale: float | None = None
) -> jax.Array:
    """softmax(q k^T / sqrt(K)) of equation 1: float32 weights [B, H, T, S] of q [B, T, H, K] and k [B, S, H, K]."""
    return masked_softmax(products_with_keys(scaled(q, scale), k), mask)


def dot_product_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None, *, scale: float | None = None
) -> jax.Array:
    """softmax(q k^T / sqrt(K)) v, [B, T, H, K] (Vaswani et al. 2017, section 3.2.1, eq. 1).

    Args:
      q: queries [B, T, H, K].
      k: keys [B, S, H, K].
      v: values [B, S, H, K].
      mask: boolean, broadcast to [B, H, T, S], True = may attend.
      scale: factor of the products instead of 1 / sqrt(K); 1.0: unscaled.
    """
    return weighted_values(attention_weights(q, k, mask, scale=scale), v)


def additive_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None, *, weight: jax.Array
) -> jax.Array:
    """softmax(weight . tanh(q + k)) v, [B, T, H, K]: a network with one hidden layer compares query and key.

    Bahdanau et al. 2015, section 3.1 and appendix A.1.2; their W_a and U_a are the projections of queries and keys.
    Vaswani et al. 2017, section 3.2.1, compare it with `dot_product_attention`, whose arguments it takes.

    Args:
      weight: [H, K], of each head's hidden units.
    """
    return weighted_values(masked_softmax(additive_scores(q, k, weight), mask), v)


class MultiHeadAttention(nn.Module):
    """H attentions in parallel on projections of their inputs (Vaswani et al. 2017, section 3.2.2)."""

    d_model: int
    num_heads: int
    head_dim: int
    use_bias: bool = False
    dropout_rate: float = 0.0  # on the attention weights; 0 in the published model
    is_fused: bool = False  # use `fused_attention`, which has no dropout
    score: str = 'scaled_dot'  # of a query and a key: scaled_dot, dot or additive
    dtype: jnp.dtype = jnp.float32

    @classmethod
    def of(cls, config: TransformerConfig) -> 'MultiHeadAttention':
        return cls(
            d_model=config.d_model,
            num_heads=config.num_heads,
            head_dim=config.width_of_head,
            use_bias=config.attention_bias,
            dropout_rate=config.attention_dropout_rate,
            is_fused=config.attention == 'cudnn',
            score=config.attention_score,
            dtype=jnp.dtype(config.dtype),
        )

    def setup(self) -> None:
        # One Glorot draw for each matrix: a fused one would get the wrong fan-out.
        def projection(inputs: int, features: int) -> Dense:
            return Dense(inputs, features, self.use_bias, self.dtype)

        width = self.num_heads * self.head_dim
        self.query, self.key, self.value = (projection(self.d_model, width) for _ in range(3))
        self.output = projection(width, self.d_model)
        if self.score == 'additive':
            init = nn.initializers.normal(self.head_dim**-0.5)
            self.score_weight = self.param('score_weight', init, (self.num_heads, self.head_dim), jnp.float32)
        self.weight_dropout = Dropout(self.dropout_rate)

    def _split(self, x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)

    def project_memory(self, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys and values [B, S, H, K] of memory [B, S, D]; needed once per sentence."""
        k, v = side_by_side(memory, self.key, self.value)
        return self._split(k), self._split(v)

    def weights(self, x: jax.Array, k: jax.Array, mask: jax.Array | None) -> jax.Array:
        """Attention weights [B, H, T, S] of x [B, T, D] over projected keys, for inspection."""
        return masked_softmax(self._scores(self._split(self.query(x)), k), mask)

    def _scaled(self, q: jax.Array) -> jax.Array:
        return scaled(q, 1.0 if self.score == 'dot' else None)

    def _scores(self, q: jax.Array, k: jax.Array) -> jax.Array:
        """Float32 [B, H, T, S] of q [B, T, H, K] and k [B, S, H, K]."""
        if self.score == 'additive':
            return additive_scores(q, k, self.score_weight)
        return products_with_keys(self._scaled(q), k)

    def attend(
        self, x: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None, deterministic: bool = True
    ) -> jax.Array:
        """Attention [B, T, D] of x [B, T, D] over projected keys and values [B, S, H, K]."""
        return self._attend(self._split(self.query(x)), k, v, mask, deterministic)

    def _attend(
        self, q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None, deterministic: bool = True
    ) -> jax.Array:
        if self.is_fused:
            heads = fused_attention(q, k, v, mask)
        else:
            weights = self.weight_dropout(masked_softmax(self._scores(q, k), mask), deterministic=deterministic)
            heads = weighted_values(weights, v)
        return self.output(heads.reshape(*heads.shape[:-2], -1))

    def __call__(
        self, x: jax.Array, memory: jax.Array, mask: jax.Array | None = None, *, deterministic: bool = True
    ) -> jax.Array:
        """Attention [B, T, D] of x [B, T, D] over memory [B, S, D]; self-attention if they are the same array."""
        if memory is not x:
            return self.attend(x, *self.project_memory(memory), mask, deterministic)
        q, k, v = (self._split(y) for y in side_by_side(x, self.query, self.key, self.value))
        return self._attend(q, k, v, mask, deterministic)

    def attend_cached(self, x: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        """As `attend` without dropout, over keys and values as a `KVCache` has them; also its weights [B, H, T, S]."""
        batch, length, _ = x.shape
        q = self._split(self.query(x))
        if self.score == 'additive':
            keys = k.reshape(batch, self.num_heads, self.head_dim, -1)
            scores = additive_scores(q, jnp.moveaxis(keys, 3, 1), self.score_weight)
        else:
            scores = products_with_keys(heads_first(self._scaled(q)), k, 'NTK,NKS->NTS')  # N = B * H
        weights = masked_softmax(scores.reshape(batch, self.num_heads, length, -1), mask)
        heads = weighted_values(weights.reshape(v.shape[0], length, -1), v, 'NTS,NSK->NTK')
        heads = jnp.swapaxes(heads.reshape(batch, self.num_heads, length, -1), 1, 2)
        return self.output(heads.reshape(*x.shape[:-1], -1)), weights

    def decode(
        self, x: jax.Array, cache: KVCache, position: jax.Array, visible: jax.Array
    ) -> tuple[jax.Array, KVCache]:
        """Self-attention of one new position of W hypotheses, x [B, W, D], over the `visible` slots [B, 1, W, L * W]
        (see `visible_slots`), and the cache with that position."""
        # Two products, not `side_by_side`, which would stack the kernels again for each token.
        cache = cache.put(self._split(self.key(x)), self._split(self.value(x)), position)
        return self.attend_cached(x, *cache, visible)[0], cache

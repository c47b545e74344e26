"""Attention: equation 1, its masks, and the multi-head layer (Vaswani et al. 2017, section 3.2).

Shapes: B batch, T queries, S keys, H heads, K head_dim, D d_model, W hypotheses.
Masks broadcast to [B, H, T, S]. They are boolean, True = may attend, or float32 and added to the scores.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.ops.batch_invariance import exponentials, is_batch_invariant, row_sums, widened
from flax_transformer.ops.dense import Dense, side_by_side
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.product import mixed_einsum, rounded_softmax

from .cache import KVCache, heads_first
from .config import TransformerConfig
from .variants import additive, fused_attention

# More scores of a head are computed for some queries at a time: a document of 8,000 tokens would take gigabytes.
MOST_SCORES = 1 << 21

Keys = jax.Array | KVCache
Score = Callable[[jax.Array, Keys], jax.Array]  # (q [B, T, H, K], k [B, S, H, K]) -> float32 [B, H, T, S]


def dot(q: jax.Array, k: Keys) -> jax.Array:
    """q k^T, float32.

    Reads the keys of a cache in the shape in which they are stored: in another, XLA for CPUs copies them at each step.
    """
    if is_batch_invariant() and not isinstance(k, KVCache):
        scores = mixed_einsum('BTHK,BSHK->BHTS', q, widened(k, 1), jnp.float32)
        return scores[..., : k.shape[1]]
    if isinstance(k, KVCache):
        by_head = mixed_einsum('NTK,NKS->NTS', heads_first(q), k.k, jnp.float32)  # N = B * H
        return by_head.reshape(q.shape[0], q.shape[2], q.shape[1], -1)[..., : k.num_slots]
    return mixed_einsum('BTHK,BSHK->BHTS', q, k, jnp.float32)


def scaled_dot(q: jax.Array, k: Keys) -> jax.Array:
    """q k^T / sqrt(K), as `dot`; its variance is 1 if that of each component of q and k is."""
    return dot(q * q.shape[-1] ** -0.5, k)


def masked_softmax(scores: jax.Array, mask: jax.Array | None = None, dtype: jnp.dtype = jnp.float32) -> jax.Array:
    """Weights of float32 scores over their last axis; a query that may attend to nothing gets equal ones, never NaN.

    Gradients read the weights as returned, in `dtype`, so that no others are kept for them.
    """
    if mask is not None and mask.dtype == bool:
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    elif mask is not None:
        scores = scores + mask
    if is_batch_invariant():
        weights = exponentials(scores)
        return (weights / row_sums(weights)).astype(dtype)
    if dtype == jnp.float32:
        return jax.nn.softmax(scores, axis=-1)
    return rounded_softmax(scores, dtype)


def weighted_values(weights: jax.Array, v: jax.Array, axes: str = 'BHTS,BSHK->BTHK') -> jax.Array:
    """Sums of values, in their dtype."""
    if is_batch_invariant() and axes == 'BHTS,BSHK->BTHK':
        # Values are laid out as those of a cache are, since XLA for CPUs adds up others in an order of their own.
        by_head = mixed_einsum('NTS,NSK->NTK', weights.reshape(-1, *weights.shape[2:]), heads_first(v))
        return jnp.swapaxes(by_head.reshape(*weights.shape[:3], -1), 1, 2)
    return mixed_einsum(axes, weights, v)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    *,
    score: Score = scaled_dot,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """softmax(q k^T / sqrt(K)) v, [B, T, H, K] (Vaswani et al. 2017, section 3.2.1, eq. 1).

    Takes queries [B, T, H, K], keys and values [B, S, H, K]. `dropout` is applied to the weights [B, H, T, S].
    """
    weights = masked_softmax(score(q, k), mask, v.dtype)
    if dropout is not None:
        weights = dropout(weights)
    return weighted_values(weights, v)


def attention_by_parts(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None, *, width: int, **options: Any
) -> jax.Array:
    """`attention` with the scores of only `width` <= T queries in memory at once; it has no gradient."""
    length = q.shape[1]

    def add(number: jax.Array, out: jax.Array) -> jax.Array:
        first = jnp.minimum(number * width, length - width)

        def part(x: jax.Array, axis: int) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(x, first, width, axis)

        own_mask = mask if mask is None or mask.shape[2] == 1 else part(mask, 2)
        values = attention(part(q, 1), k, v, own_mask, **options)
        return jax.lax.dynamic_update_slice_in_dim(out, values, first, 1)

    return jax.lax.fori_loop(0, -(-length // width), add, jnp.zeros((*q.shape[:3], v.shape[3]), v.dtype))


def choose_attention(queries: int, keys: int, *, is_fused: bool, deterministic: bool) -> Callable[..., jax.Array]:
    """`attention`, or what stands in for it with equal results."""
    if is_fused:
        return fused_attention
    has_known_lengths = isinstance(queries, int) and isinstance(keys, int)  # symbolic in an export
    if deterministic and has_known_lengths and queries * keys > MOST_SCORES:
        return partial(attention_by_parts, width=min(max(MOST_SCORES // keys, 1), queries))
    return attention


def padding_mask(tokens: jax.Array, pad_id: int) -> jax.Array:
    """A mask [B, 1, 1, S] that hides padding keys, from token ids [B, S].

    >>> padding_mask(jnp.array([[7, 4, 0]]), pad_id=0)[0, 0].astype(int).tolist()
    [[1, 1, 0]]
    """
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length: int) -> jax.Array:
    """A mask [1, 1, T, T] under which position t sees positions 0 to t (section 3.2.3).

    >>> causal_mask(3)[0, 0].astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return jnp.tril(jnp.ones((length, length), bool))[None, None]


def segment_mask(query_ids: jax.Array, key_ids: jax.Array) -> jax.Array:
    """A mask [B, 1, T, S] under which tokens of a packed row see only their own sentence.

    Ids [B, T] and [B, S] number the sentences of a row from 1; 0 is padding, which neither sees nor is seen.

    >>> segment_mask(jnp.array([[1, 2, 0]]), jnp.array([[1, 1, 2, 0]]))[0, 0].astype(int).tolist()
    [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    """
    same = query_ids[:, :, None] == key_ids[:, None, :]
    return (same & (key_ids != 0)[:, None, :])[:, None]


class MultiHeadAttention(nn.Module):
    """H attentions in parallel on projections of their inputs (Vaswani et al. 2017, section 3.2.2)."""

    d_model: int
    num_heads: int
    head_dim: int
    use_bias: bool = False
    dropout_rate: float = 0.0  # drops attention weights
    is_fused: bool = False  # use `fused_attention`
    score: str = 'scaled_dot'  # scaled_dot, dot or additive
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
        projection = partial(Dense, use_bias=self.use_bias, dtype=self.dtype)
        width = self.num_heads * self.head_dim
        self.query = projection(self.d_model, width)
        self.key = projection(self.d_model, width)
        self.value = projection(self.d_model, width)
        self.output = projection(width, self.d_model)
        self.weight_dropout = Dropout(self.dropout_rate)

        if self.score == 'additive':
            init = nn.initializers.normal(self.head_dim**-0.5)
            weight = self.param('score_weight', init, (self.num_heads, self.head_dim), jnp.float32)
            self.score_function = partial(additive, weight=weight)
        else:
            self.score_function = {'scaled_dot': scaled_dot, 'dot': dot}[self.score]

    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array | None = None,
        mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
    ) -> jax.Array:
        """Attention [B, T, D] of x over memory [B, S, D], or without one over x itself."""
        if memory is None:
            q, k, v = (self._split(y) for y in side_by_side(x, self.query, self.key, self.value))
        else:
            k, v = self.project_memory(memory)
            q = self._split(self.query(x))

        drops = self.dropout_rate and not deterministic
        dropout = partial(self.weight_dropout, deterministic=False) if drops else None
        attend = choose_attention(q.shape[1], k.shape[1], is_fused=self.is_fused, deterministic=deterministic)
        return self._join(attend(q, k, v, mask, score=self.score_function, dropout=dropout))

    def project_memory(self, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys and values [B, S, H, K] of memory [B, S, D]."""
        k, v = side_by_side(memory, self.key, self.value)
        return self._split(k), self._split(v)

    def attend_cached(self, x: jax.Array, cache: KVCache, mask: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        """Attention [B, T, D] of x [B, T, D] over a cache, without dropout, and its weights [B, H, T, S]."""
        slots = cache.num_slots if mask is None else mask.shape[-1]
        if slots < cache.num_slots:  # the others are those of a widened memory
            mask = jnp.pad(mask, ((0, 0), (0, 0), (0, 0), (0, cache.num_slots - slots)))
        keys = cache.keys(self.num_heads) if self.score == 'additive' else cache
        weights = masked_softmax(self.score_function(self._split(self.query(x)), keys), mask)
        # Reads values as they are stored: given [B, S, H, K], XLA for CPUs chooses products that it lacks in bfloat16.
        by_head = weights.reshape(cache.v.shape[0], x.shape[1], -1)  # N = B * H
        heads = weighted_values(by_head, cache.v, 'NTS,NSK->NTK').reshape(*weights.shape[:3], -1)
        return self._join(jnp.swapaxes(heads, 1, 2)), weights[..., :slots]

    def decode(
        self, x: jax.Array, cache: KVCache, position: jax.Array, visible: jax.Array
    ) -> tuple[jax.Array, KVCache]:
        """Self-attention of one new position x [B, W, D] over the `visible_slots`, and the cache with it."""
        # `side_by_side` would stack the kernels again for each token.
        cache = cache.put(self._split(self.key(x)), self._split(self.value(x)), position)
        return self.attend_cached(x, cache, visible)[0], cache

    def _split(self, x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)

    def _join(self, heads: jax.Array) -> jax.Array:
        return self.output(heads.reshape(*heads.shape[:-2], -1))

"""Equation 1, its masks, its cache and the multi-head layer. Points are those of docs/explanation/paper_and_code.md."""

import math
import re
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy_transformer
import pytest
from jax._src.cudnn import fused_attention_stablehlo
from jax.extend.core import jaxprs_in_params
from traced import equations

from flax_transformer.config import TransformerConfig
from flax_transformer.ops.batch_invariance import batch_invariance
from flax_transformer.transformer.attention import (
    MultiHeadAttention,
    attention,
    attention_by_parts,
    causal_mask,
    dot,
    masked_softmax,
    scaled_dot,
)
from flax_transformer.transformer.cache import KVCache, visible_slots
from flax_transformer.transformer.model import Transformer
from flax_transformer.transformer.variants import additive, fused_attention

B, T, S, H, K, D = 2, 5, 7, 3, 4, 16
attend = jax.jit(attention, static_argnames='score')
weights_of = jax.jit(lambda q, k, mask=None: masked_softmax(scaled_dot(q, k), mask))
SUMS = {'rtol': 1e-5, 'atol': 1e-6}  # float32 against float64: sums of some ten products of size 1


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def random_like(tree, seed=0):
    """Normal float32 values in the shapes of a tree: biases too, which an initializer would leave at 0."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), jnp.float32), tree)


@pytest.fixture(scope='module')
def layer():
    """A multi-head layer, biases and all, whose heads are not d_model / num_heads wide."""
    module = MultiHeadAttention(d_model=D, num_heads=H, head_dim=K, use_bias=True)
    x = jnp.zeros((1, 1, D))
    return module, random_like(jax.eval_shape(module.init, jax.random.key(0), x, x))


WEIGHT = normal(H, K, seed=9)
SCORES = {'scaled_dot': scaled_dot, 'dot': dot, 'additive': partial(additive, weight=WEIGHT)}


@pytest.mark.parametrize('kind', SCORES)
@pytest.mark.parametrize('masked', [False, True])
def test_attention_equals_equation_1_by_each_kind_of_score(masked, kind):
    """Point 3: the scale is head_dim^-0.5."""
    q, k, v = normal(B, T, H, K), normal(B, S, H, K, seed=1), normal(B, S, H, K, seed=2)
    visible = np.random.default_rng(3).random((B, H, T, S)) < (0.6 if masked else 2.0)
    visible[..., 0] = True  # every query sees something
    got = np.asarray(attend(q, k, v, visible if masked else None, score=SCORES[kind]))
    for b in range(B):
        for h in range(H):
            args = [x[b, :, h].astype(np.float64) for x in (q, k, v)]
            np.testing.assert_allclose(
                got[b, :, h], numpy_transformer.attention(*args, visible[b, h], kind, WEIGHT[h]), **SUMS
            )


@pytest.mark.parametrize('mask', [None, np.arange(7)[None, None, None] < 5, np.tril(np.ones((7, 7), bool))[None, None]])
def test_attention_by_parts_equals_attention_at_once(mask):
    q, k, v = normal(3, 2, 7, 4, 8)
    for width in (1, 3, 7):
        by_parts = jax.jit(partial(attention_by_parts, width=width, score=scaled_dot))(q, k, v, mask)
        np.testing.assert_allclose(by_parts, attend(q, k, v, mask), rtol=1e-5, atol=1e-6)  # another order of sums


def test_a_long_row_never_holds_all_of_its_scores():
    config = TransformerConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1)
    ids = jax.ShapeDtypeStruct((1, 4000), jnp.int32)
    model = Transformer(config)
    text = jax.jit(model.apply).lower(jax.eval_shape(model.init, jax.random.key(0), ids, ids), ids, ids).as_text()
    assert '4000x4000xf32' not in text


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_query_that_sees_nothing_gives_equal_weights_and_finite_gradients(dtype):
    q, k, v = (normal(1, 2, 1, K, seed=i).astype(dtype) for i in range(3))
    mask = np.array([[False, False], [True, False]])[None, None]
    np.testing.assert_array_equal(np.asarray(weights_of(q, k, mask))[0, 0], [[0.5, 0.5], [1.0, 0.0]])
    total = lambda *qkv: attention(*qkv, mask).astype(jnp.float32).sum()
    gradients = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(q, k, v)
    assert all(np.isfinite(np.asarray(g, np.float32)).all() for g in gradients)


def test_bfloat16_inputs_get_float32_weights():
    """Point 7. Products are exact (so is K^-0.5 = 0.5) and summed in float32, so the tolerance is float32's."""
    q, k = (4 * normal(1, T, 1, K)).astype(jnp.bfloat16), normal(1, S, 1, K, seed=1).astype(jnp.bfloat16)
    weights = np.asarray(weights_of(q, k))
    assert weights.dtype == np.float32
    scores = np.einsum('TK,SK->TS', *(np.asarray(x, np.float64)[0, :, 0] for x in (q, k))) / np.sqrt(K)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights[0, 0], expected, rtol=1e-5)


def test_additive_scores_of_bfloat16_are_computed_in_float32():
    """Point 7: tanh of rounded inputs, but neither their sum nor tanh is rounded again."""
    traced = jax.make_jaxpr(SCORES['additive'])(*[jnp.ones((1, T, H, K), jnp.bfloat16)] * 2)
    dtypes = {
        eqn.outvars[0].aval.dtype.name for eqn in equations(traced.jaxpr) if eqn.primitive.name in ('add', 'tanh')
    }
    assert 'float32' in dtypes
    assert 'bfloat16' not in dtypes


def test_the_gradient_of_additive_attention_is_that_of_its_formula():
    """Computed one query at a time; here all at once, by JAX."""
    q, k, v = normal(B, T, H, K), normal(B, S, H, K, seed=1), normal(B, S, H, K, seed=2)
    mask = np.random.default_rng(3).random((B, 1, T, S)) < 0.6
    mask[..., 0] = True
    factor = normal(B, T, H, K, seed=4)

    def formula(q, k, v, mask, *, weight):
        scores = jnp.einsum('BTSHK,HK->BHTS', jnp.tanh(q[:, :, None] + k[:, None]), weight)
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
        return jnp.einsum('BHTS,BSHK->BTHK', weights, v)

    def gradients(attend):
        loss = lambda q, k, v, weight: (attend(q, k, v, mask, weight=weight) * factor).sum()
        return jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(q, k, v, WEIGHT)

    attend = lambda *args, weight: attention(*args, score=partial(additive, weight=weight))
    for got, expected in zip(gradients(attend), gradients(formula), strict=True):
        np.testing.assert_allclose(got, expected, **SUMS)


def test_additive_attention_never_holds_a_value_for_each_query_key_and_unit():
    length, gradient = 64, jax.grad(lambda q, k, w: additive(q, k, weight=w).sum(), argnums=(0, 1, 2))
    x = jax.ShapeDtypeStruct((1, length, H, K), jnp.float32)
    sizes = [math.prod(shape) for shape in shapes_in(jax.make_jaxpr(gradient)(x, x, WEIGHT).jaxpr)]
    assert max(sizes) == H * length**2 > H * K * length  # the scores themselves


def shapes_in(jaxpr):
    """Of everything that a jaxpr computes."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.shape for variable in equation.outvars)
        for inner in jaxprs_in_params(equation.params):
            yield from shapes_in(inner)


@pytest.mark.parametrize('is_invariant', [False, True])
def test_hypotheses_that_change_places_see_the_slots_of_their_ancestors(layer, is_invariant):
    """Three hypotheses a sentence descend from one another at random; each must attend to its own past, whole.

    The cache grows on the way; where decoding is batch invariant, its keys have more columns than slots.
    """
    width = 3
    module, variables = layer
    rng = np.random.default_rng(0)
    apply = jax.jit(lambda *args: module.apply(variables, *args, method='decode'))
    seen = jax.jit(partial(visible_slots, width=width), static_argnums=0)
    full = jax.jit(lambda x: module.apply(variables, x, x, causal_mask(T)))

    def decode(*args):
        with batch_invariance(is_invariant):
            return apply(*args)

    def with_room(cache, length):
        with batch_invariance(is_invariant):
            return cache.with_room(length * width)

    room = T // 2
    cache = with_room(KVCache.empty(B, 0, H, K, jnp.float32), room)
    cache = jax.tree.map(lambda x: jnp.full_like(x, 50.0), cache)
    past = np.zeros((B, width, T, D), np.float32)
    ancestry = np.full((B, width, T), -1)
    for t in range(T):
        if t == room:
            room = T
            cache = with_room(cache, room)
        x = normal(B, width, D, seed=t)
        past[:, :, t] = x
        got, cache = decode(x, cache, np.int32(t), seen(room, np.int32(t), ancestry))
        for w in range(width):
            expected = np.asarray(full(past[:, w]))[:, t]
            np.testing.assert_allclose(np.asarray(got)[:, w], expected, rtol=1e-5, atol=1e-5)
        ancestry[:, :, t] = np.arange(width)
        parents = rng.integers(0, width, (B, width))
        past = np.take_along_axis(past, parents[:, :, None, None], axis=1)
        ancestry = np.take_along_axis(ancestry, parents[:, :, None], axis=1)


@pytest.mark.parametrize('is_masked', [True, False])
@pytest.mark.slow
def test_fused_attention_is_attention_with_odd_lengths_padded_unseen(is_masked, monkeypatch):
    """What is asked of cuDNN, answered by JAX itself: no machine of these tests has the library.

    Compares values and gradients, also of a query that sees nothing: its weights are equal, its gradient is finite.
    """
    fused, taken = jax.nn.dot_product_attention, []

    def record(*args, implementation, mask):
        taken.extend(x.shape[1] % 2 for x in args)
        assert mask.any(axis=-1).all(), "a query that sees nothing: cuDNN's gradient of it is NaN"
        return fused(*args, mask=mask)

    monkeypatch.setattr(jax.nn, 'dot_product_attention', record)
    queries, keys = 5, 7
    q, k, v = normal(B, queries, H, K), normal(B, keys, H, K, seed=1), normal(B, keys, H, K, seed=2)
    mask = np.random.default_rng(3).random((B, 1, queries, keys)) < 0.5
    mask[:, :, 0, 0], mask[:, :, 1:3] = True, [[True], [False]]  # the first query sees something, the third nothing
    mask = mask if is_masked else None
    weights = normal(B, queries, H, K, seed=4)

    def compute(attend):
        def loss(*args):
            values = attend(*args, mask) * weights
            return values.sum(), values

        return jax.tree.leaves(jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v))

    for got, expected in zip(compute(fused_attention), compute(attention), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)
    assert taken == [0, 0, 0]


@pytest.mark.slow
def test_fused_attention_is_what_cudnn_gets(monkeypatch):
    """Lowered for CUDA from here, with odd lengths, which cuDNN's gradient would refuse under a mask."""
    monkeypatch.setattr(fused_attention_stablehlo, 'check_cudnn_version', lambda: 91000)
    config = TransformerConfig(
        vocab_size=20, d_model=128, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, attention='cudnn'
    )
    model, ids = Transformer(config, platform='gpu'), jnp.ones((2, 63), jnp.int32)
    rows = {f'{side}_{what}': ids for side in ('source', 'target') for what in ('segments', 'positions')}
    shapes = jax.eval_shape(model.init, jax.random.key(0), ids, ids)
    loss = lambda variables: model.apply(variables, ids, ids, **rows).sum()
    text = jax.jit(jax.grad(loss)).trace(shapes).lower(lowering_platforms=('cuda',)).as_text()
    calls = Counter(re.findall(r'@__cudnn[$\w]+', text))
    assert calls == {'@__cudnn$fmhaScaleBiasSoftmax': 3, '@__cudnn$fmhaScaleBiasSoftmaxBackward': 3}

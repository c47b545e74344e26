"""Embeddings, positions, feed-forward, residuals, dropout. Points are those of docs/explanation/paper_and_code.md."""

from collections import Counter
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpy_transformer
import pytest

from flax_transformer.config import TransformerConfig
from flax_transformer.ops.dropout import Dropout
from flax_transformer.transformer.decoder import Decoder
from flax_transformer.transformer.encoder import Encoder
from flax_transformer.transformer.layers import FeedForward, Positions, Residual, sinusoids
from flax_transformer.transformer.model import Transformer
from flax_transformer.transformer.norms import LayerNorm

LAYOUTS = ('interleaved', 'concatenated', 'tensor2tensor')
FLOAT32 = {'rtol': 1e-5, 'atol': 1e-5}  # float32 against float64: sums of some 8 products of size 1
TINY = {'vocab_size': 11, 'd_model': 8, 'num_heads': 2, 'd_ff': 8, 'num_encoder_layers': 1, 'num_decoder_layers': 1}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def random_params(module, *args):
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), *args))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), shapes)


def in_float64(variables):
    return jax.tree.map(lambda p: np.asarray(p, np.float64), variables['params'])


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize(('length', 'd_model'), [(300, 16), (7, 4), (1, 512)])
def test_sinusoids_equal_the_formula_entry_by_entry(layout, length, d_model):
    """Points 11 and 19 (the odd dimensions are cosines). Computed in float64, so one rounding to float32."""
    expected = numpy_transformer.sinusoids(length, d_model, layout)
    got = sinusoids(length, d_model, layout)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=0, atol=6e-8)


def test_learned_positions_refuse_a_longer_row():
    module = Positions(d_model=8, layout='learned', max_length=4)
    x = jnp.zeros((1, 5, 8))
    with pytest.raises(ValueError, match=r'length 5.*max_length=4'):
        jax.eval_shape(lambda: module.init(jax.random.key(0), x, jnp.arange(5)[None], 5))


def test_layer_norm_has_the_papers_epsilon_where_it_shows():
    """Point 4: at variances near 1e-6 an epsilon of 1e-5 would halve the output."""
    x = 1e-3 * normal(4, 16)
    residual = Residual(TransformerConfig(**TINY, dropout_rate=0.0, dtype='float32'))
    variables = random_params(residual, x, jnp.zeros_like)
    expected = numpy_transformer.layer_norm(in_float64(variables)['norm'], x.astype(np.float64), 1e-6)
    np.testing.assert_allclose(residual.apply(variables, x, jnp.zeros_like), expected, **FLOAT32)


def test_layer_norm_survives_a_mean_large_against_the_deviation():
    """x itself is rounded to 5e-4 at 1e4 and so is its mean; E[x^2] - E[x]^2 in float32 would be off by 8 or so."""
    x = 1e4 + normal(4, 16)
    module = LayerNorm(1e-6)
    variables = {'params': {'scale': jnp.ones(16), 'bias': jnp.zeros(16)}}
    expected = numpy_transformer.layer_norm({'scale': 1.0, 'bias': 0.0}, x.astype(np.float64), 1e-6)
    np.testing.assert_allclose(module.apply(variables, x), expected, atol=5e-3)


@pytest.mark.parametrize('norm_first', [False, True])
def test_residual_drops_the_sublayers_output_and_nothing_else(norm_first):
    """Point 5: before the residual add, so that what is dropped leaves x, and what stays counts double at rate 0.5."""
    module = Residual(TransformerConfig(**TINY, dropout_rate=0.5, norm_first=norm_first, dtype='float32'))
    x = normal(50, 16)
    variables = random_params(module, x, jnp.ones_like)
    normed = []

    def record(next_function, args, kwargs, context):
        normed.extend(args[:1] if isinstance(context.module, LayerNorm) else ())
        return next_function(*args, **kwargs)

    @jax.jit
    def training(variables, key):
        with nn.intercept_methods(record):
            got = module.apply(variables, x, jnp.ones_like, deterministic=False, rngs={'dropout': key})
        return got, normed.pop()

    got, normed = map(np.asarray, training(variables, jax.random.key(1)))
    total = got if norm_first else normed
    kept = total - x > 1
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(total, x + 2 * kept, rtol=1e-6)
    if norm_first:
        np.testing.assert_array_equal(normed, x)
    else:
        norm = numpy_transformer.layer_norm(in_float64(variables)['norm'], total.astype(np.float64), 1e-6)
        np.testing.assert_allclose(got, norm, **FLOAT32)


def test_attention_dropout_falls_on_the_weights():
    """Point 5: a field. Of one key the weight is 1, so each head's output comes whole, doubled or not at all."""
    config = TransformerConfig(**TINY, attention_dropout_rate=0.5, dtype='float32')
    encoder = Encoder(config)
    attend = nn.apply(lambda encoder, x: encoder.layers[0].self_attention(x, x, deterministic=False), encoder)
    params = random_params(encoder, np.zeros((1, 1, 8), np.float32), None)
    attention = params['params']['layers_0']['self_attention']
    attention['output']['kernel'] = np.eye(8, dtype=np.float32)
    x = normal(40, 1, 8)
    got = np.asarray(jax.jit(attend)(params, x, rngs={'dropout': jax.random.key(0)})).reshape(40, 2, 4)
    value = (x @ np.asarray(attention['value']['kernel'])).reshape(40, 2, 4)
    factor = np.round((got / value).mean(-1))
    assert set(np.unique(factor)) == {0.0, 2.0}
    np.testing.assert_allclose(got, factor[..., None] * value, **FLOAT32)


def test_activation_dropout_falls_between_activation_and_second_matrix():
    """Point 5: a field. With W2 the identity and b2 = 1 outputs are 1 + twice the hidden value, or 1."""
    module = FeedForward(TransformerConfig(**TINY, activation='swish', activation_dropout_rate=0.5, dtype='float32'))
    x = normal(40, 8)
    variables = random_params(module, x)
    variables['params']['outer'] = {'kernel': np.eye(8, dtype=np.float32), 'bias': np.ones(8, np.float32)}
    training = partial(module.apply, deterministic=False, rngs={'dropout': jax.random.key(0)})
    hidden, got = (np.asarray(jax.jit(apply)(variables, x)) - 1 for apply in (module.apply, training))
    kept = np.abs(got - 2 * hidden) < np.abs(got)
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(got, np.where(kept, 2 * hidden, 0), **FLOAT32)


def dropped(deterministic=False, **changes):
    """Where a small model drops anything: how often each owner of a Dropout with a rate applies it."""
    model = Transformer(TransformerConfig(**TINY, **changes))
    seen = Counter()

    def record(next_function, args, kwargs, context):
        if isinstance(context.module, Dropout) and context.module.rate and not kwargs['deterministic']:
            seen['/'.join(context.module.path[:-1])] += 1
        return next_function(*args, **kwargs)

    tokens, keys = jnp.ones((1, 3), jnp.int32), dict.fromkeys(('params', 'dropout'), jax.random.key(0))
    with nn.intercept_methods(record):
        jax.eval_shape(lambda: model.init(keys, tokens, tokens, deterministic=deterministic))
    return dict(seen)


PAPER = {
    '': 2,  # embedding + position, of the source and of the target
    'encoder/layers_0/self_residual': 1,
    'encoder/layers_0/feed_forward_residual': 1,
    'decoder/layers_0/self_residual': 1,
    'decoder/layers_0/cross_residual': 1,
    'decoder/layers_0/feed_forward_residual': 1,
}
WEIGHTS = {
    'encoder/layers_0/self_attention': 1,
    'decoder/layers_0/self_attention': 1,
    'decoder/layers_0/cross_attention': 1,
}
HIDDEN = {'encoder/layers_0/feed_forward': 1, 'decoder/layers_0/feed_forward': 1}


def test_dropout_is_where_the_paper_has_it_and_elsewhere_by_field():
    """Point 5."""
    off = {'dropout_rate': 0.0}
    assert dropped() == dropped(norm_first=True) == PAPER
    assert dropped(**off) == {}
    assert dropped(**off, attention_dropout_rate=0.5) == WEIGHTS
    assert dropped(**off, activation_dropout_rate=0.5) == HIDDEN
    everywhere = {'attention_dropout_rate': 0.5, 'activation_dropout_rate': 0.5}
    assert dropped(**everywhere) == PAPER | WEIGHTS | HIDDEN
    assert dropped(deterministic=True, **everywhere) == {}


def test_dropout_falls_on_the_sum_of_embedding_and_position():
    """Point 5: at rate 0.5 the stacks' inputs are twice the sum, or nothing, and it is not the same draw for both."""
    model = Transformer(TransformerConfig(**TINY, dropout_rate=0.5, dtype='float32'))
    tokens = np.random.default_rng(0).integers(1, 11, (8, 6))
    variables = random_params(model, tokens, tokens)
    inputs = {}

    def record(next_function, args, kwargs, context):
        if isinstance(context.module, (Encoder, Decoder)) and context.method_name == '__call__':
            inputs[type(context.module)] = args[0]
            return args[0]  # nobody asks what the stacks make of it
        return next_function(*args, **kwargs)

    def inputs_of(variables, **training):
        with nn.intercept_methods(record):
            model.apply(variables, tokens, tokens, **training)
        return inputs[Encoder], inputs[Decoder]

    wholes = jax.jit(inputs_of)(variables)
    training = jax.jit(partial(inputs_of, deterministic=False, rngs={'dropout': jax.random.key(0)}))(variables)
    for whole, dropped_sum in zip(map(np.asarray, wholes), map(np.asarray, training), strict=True):
        kept = dropped_sum != 0
        assert 0.4 < kept.mean() < 0.6
        np.testing.assert_allclose(dropped_sum, np.where(kept, 2 * whole, 0), rtol=1e-6, atol=1e-6)  # two programs
    assert ((training[0] != 0) != (training[1] != 0)).any()

"""The whole model: against NumPy, by its gradients, packed, cached. Points: docs/explanation/paper_and_code.md."""

import itertools
from functools import cache, partial
from types import SimpleNamespace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpy_transformer
import pytest

from flax_transformer.config import TransformerConfig
from flax_transformer.decoding.problem import with_room
from flax_transformer.transformer.layers import Positions
from flax_transformer.transformer.model import Transformer, resolve_dtype, with_fastest_attention

B, S, T, V = 3, 6, 5, 23
SOURCE = np.array([[4, 9, 2, 1, 0, 0], [7, 7, 3, 22, 5, 1], [1, 0, 0, 0, 0, 0]])
TARGET_IN = np.array([[0, 8, 6, 1, 0], [0, 3, 19, 4, 11], [0, 5, 1, 0, 0]])  # begins with the zero vector: point 18

# Two, three and one sentence pairs in rows of the same shape; segment 0 is padding.
PACKED_SOURCE = np.array([[4, 9, 1, 7, 1, 0], [3, 1, 5, 1, 8, 1], [5, 6, 7, 1, 0, 0]])
SOURCE_SEGMENTS = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 2, 2, 3, 3], [1, 1, 1, 1, 0, 0]])
SOURCE_POSITIONS = np.array([[0, 1, 2, 0, 1, 0], [0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 0, 0]])
PACKED_TARGET_IN = np.array([[0, 8, 0, 3, 6], [0, 2, 0, 0, 4], [0, 9, 9, 0, 0]])
TARGET_SEGMENTS = np.array([[1, 1, 2, 2, 2], [1, 1, 2, 3, 3], [1, 1, 1, 0, 0]])
TARGET_POSITIONS = np.array([[0, 1, 0, 1, 2], [0, 1, 0, 0, 1], [0, 1, 2, 0, 0]])
PACKING = {
    'source_segments': SOURCE_SEGMENTS,
    'target_segments': TARGET_SEGMENTS,
    'source_positions': SOURCE_POSITIONS,
    'target_positions': TARGET_POSITIONS,
}

# Logits of up to 6 come through some ten sublayers, each with float32 sums off by 1e-7 or a few: errors of up to 3e-6
# were seen, against 1e-2 and more for the faults that we made on purpose.
REFERENCE = {'rtol': 0, 'atol': 2e-5}
# The same float32 sums, perhaps in another order (bitwise equal on the machine this was written on).
REORDERED = {'rtol': 0, 'atol': 1e-5}


def small(**changes):
    values = {'vocab_size': V, 'd_model': 16, 'num_heads': 4, 'd_ff': 32, 'dtype': 'float32', 'max_length': 9}
    return TransformerConfig(**values | {'num_encoder_layers': 1, 'num_decoder_layers': 1} | changes)


@cache
def random_variables(config):
    """Random values everywhere, norms and biases too, large enough for attention to be far from uniform."""
    tokens = jnp.zeros((1, 2), jnp.int32)
    shapes = jax.eval_shape(Transformer(config).init, jax.random.key(0), tokens, tokens)
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        name, values = path[-1].key, rng.normal(size=leaf.shape)
        if name == 'kernel':
            values *= 1.5 * leaf.shape[0] ** -0.5
        elif name == 'table':
            values *= leaf.shape[1] ** -0.5
        else:
            values = 0.3 * values + (name == 'scale') if name != 'variance' else np.exp(values)
        return jnp.asarray(np.float32(values))

    return jax.tree_util.tree_map_with_path(draw, shapes)


@cache
def jitted(config, method='__call__'):
    """A method of the model with those: its operations one by one would be hundreds of programs."""
    return partial(jax.jit(partial(Transformer(config).apply, method=method)), random_variables(config))


@cache
def full_logits(config):
    return np.asarray(jitted(config)(SOURCE, TARGET_IN))


T5 = {
    **{'positions': 'relative', 'norm': 'rms', 'norm_first': True, 'attention_score': 'dot', 'gated': True},
    **{'feed_forward_bias': False, 'activation': 'gelu_tanh', 'tie_embeddings': 'sides', 'head_dim': 6},
    **{'num_encoder_layers': 2, 'num_decoder_layers': 2},
}
# Several options in each: the NumPy model takes them all.
OPTIONS = [
    {},
    {'norm_first': True, 'positions': 'concatenated', 'activation': 'gelu', 'norm_epsilon': 0.3},
    {'tie_embeddings': 'target', 'positions': 'learned', 'logits_bias': True},
    {'tie_embeddings': 'none', 'positions': 'tensor2tensor', 'norm_first': True, 'activation': 'swish'},
    {'norm': 'rms', 'attention_score': 'dot', 'pad_row': 'neither'},
    {'norm': 'group', 'd_model': 32, 'norm_first': True, 'num_encoder_layers': 2, 'num_decoder_layers': 3},
    {'norm': 'rms', 'norm_first': True, 'pad_id': 22, 'eos_id': 3},
    {'norm_epsilon': 0.01, 'pad_row': 'both', 'tie_embeddings': 'target'},
    {'attention_score': 'additive', 'attention_bias': True, 'num_heads': 3, 'head_dim': 5},
    {'tie_embeddings': 'none', 'logits_bias': True, 'scale_embedding': False, 'pad_row': 'neither'},
    {'tie_embeddings': 'target', 'target_vocab_size': 31, 'pad_row': 'both'},
    T5,
]
# What a cached step computes in its own way; the rest together, since it shares that with the full forward.
DECODED = [
    {'attention_score': 'additive', 'attention_bias': True, 'num_heads': 3, 'head_dim': 5, 'positions': 'learned'},
    {
        **{'num_encoder_layers': 2, 'num_decoder_layers': 3, 'norm_first': True},
        **{'attention_score': 'dot', 'positions': 'tensor2tensor'},
    },
    {'pad_row': 'both', 'pad_id': 22, 'eos_id': 3, 'norm_epsilon': 0.3},
    {'target_vocab_size': 31, 'tie_embeddings': 'none', 'logits_bias': True, 'pad_row': 'neither'},
    {'norm': 'rms', 'activation': 'swish', 'scale_embedding': False},
    {'norm': 'group', 'd_model': 32, 'norm_first': True, 'activation': 'gelu'},
    T5,
]


def all_configs(cases):
    name = lambda changes: '-'.join(f'{k}={v}' for k, v in changes.items())
    return pytest.mark.parametrize('config', [pytest.param(small(**c), id=name(c) or 'paper') for c in cases])


@all_configs(OPTIONS)
@pytest.mark.slow_cases(
    'norm=group-d_model=32-norm_first=True-num_encoder_layers=2-num_decoder_layers=3',
    'norm=rms-norm_first=True-pad_id=22-eos_id=3',
    'tie_embeddings=none-logits_bias=True-scale_embedding=False-pad_row=neither',
    'tie_embeddings=target-positions=learned-logits_bias=True',
    'tie_embeddings=target-target_vocab_size=31-pad_row=both',
)
def test_logits_equal_the_numpy_reference(config):
    """Points 1, 2, 3, 4, 11, 18, 19."""
    expected = numpy_transformer.logits(random_variables(config)['params'], config, SOURCE, TARGET_IN)
    got = full_logits(config)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, **REFERENCE)


@all_configs(
    [
        {},
        {'norm_first': True, 'positions': 'learned', 'tie_embeddings': 'none'},
        {'attention_score': 'additive', 'norm_first': True},
        T5,
    ]
)
@pytest.mark.slow_cases('attention_score=additive-norm_first=True', 'paper')
def test_logits_of_packed_rows_equal_the_numpy_reference(config):
    got = jitted(config)(PACKED_SOURCE, PACKED_TARGET_IN, **PACKING)
    packing = (SOURCE_SEGMENTS, TARGET_SEGMENTS, SOURCE_POSITIONS, TARGET_POSITIONS)
    expected = numpy_transformer.logits(
        random_variables(config)['params'], config, PACKED_SOURCE, PACKED_TARGET_IN, packing
    )
    real = TARGET_SEGMENTS > 0
    np.testing.assert_allclose(np.asarray(got)[real], expected[real], **REFERENCE)
    assert np.isfinite(got).all()


@pytest.mark.slow
def test_remat_keeps_no_inner_units_for_the_backward_pass():
    config = small(d_ff=40)  # no other width is 40

    def kept(remat):
        apply = Transformer(config, remat).apply
        backward = jax.eval_shape(
            lambda variables: jax.vjp(lambda v: apply(v, SOURCE, TARGET_IN), variables)[1], random_variables(config)
        )
        return {leaf.shape for leaf in jax.tree.leaves(backward) if 40 in leaf.shape}

    weights = {(16, 40), (40, 16), (40,)}
    assert kept(True) <= weights < kept(False) | weights


def receptive_field(config, source, target_in, **packing):
    """0/1 pictures [B, T, B, S] and [B, T, B, T]: whether the logits at (b, t) have any gradient at an embedding."""
    model, variables = Transformer(config), random_variables(config)
    direction = np.random.default_rng(0).normal(size=V).astype(np.float32)

    def scores(source_nudge, target_nudge):
        def add(next_function, args, kwargs, context):
            out = next_function(*args, **kwargs)
            if isinstance(context.module, Positions) and context.method_name == '__call__':
                out = out + (source_nudge if context.module.name == 'source_positions' else target_nudge)
            return out

        with nn.intercept_methods(add):
            return model.apply(variables, source, target_in, **packing) @ direction

    nudges = [jnp.zeros((*tokens.shape, config.d_model)) for tokens in (source, target_in)]
    jacobians = [np.asarray(jac) for jac in jax.jit(jax.jacrev(scores, argnums=(0, 1)))(*nudges)]
    assert all(np.isfinite(jac).all() for jac in jacobians)  # padding's too: 0, its weight, times NaN would be NaN
    return [(jac != 0).any(-1) for jac in jacobians]


def test_gradients_of_logits_vanish_at_later_positions_padding_and_other_rows():
    """Exactly zero there, and nowhere else."""
    by_source, by_target = receptive_field(small(), SOURCE, TARGET_IN)
    for b, t, other in itertools.product(range(B), range(T), range(B)):
        same_row = b == other
        np.testing.assert_array_equal(by_source[b, t, other], same_row & (SOURCE[other] != 0))
        np.testing.assert_array_equal(by_target[b, t, other], same_row & (np.arange(T) <= t))


def decode_all(config, source, target_in, width=1, length=T):
    """Logits [N, T, V] of `decode`, token by token, with room for `width` hypotheses of each sentence."""
    start = jitted(config, 'start')
    state = jax.jit(lambda source: with_room(start(source), length, width))(source)
    logits = []
    for t in range(target_in.shape[1]):
        assert int(state.position) == t
        step, state = jitted(config, 'decode')(target_in[:, t], state)
        assert step.dtype == jnp.float32
        logits.append(np.asarray(step))
    return np.stack(logits, axis=1)


@all_configs([{}, *DECODED])
@pytest.mark.slow_cases(
    'norm=group-d_model=32-norm_first=True-activation=gelu',
    'num_encoder_layers=2-num_decoder_layers=3-norm_first=True-attention_score=dot-positions=tensor2tensor',
    'target_vocab_size=31-tie_embeddings=none-logits_bias=True-pad_row=neither',
    'attention_score=additive-attention_bias=True-num_heads=3-head_dim=5-positions=learned',
    'norm=rms-activation=swish-scale_embedding=False',
)
def test_cached_decode_equals_full_forward(config):
    np.testing.assert_allclose(decode_all(config, SOURCE, TARGET_IN), full_logits(config), **REORDERED)


@pytest.mark.parametrize('positions', ['tensor2tensor', 'learned'])
@pytest.mark.slow
def test_cached_decode_does_not_depend_on_the_slots_left(positions):
    config = small(positions=positions)
    got = decode_all(config, SOURCE, TARGET_IN[:, :2], length=9)
    np.testing.assert_allclose(got, full_logits(config)[:, :2], **REORDERED)


@all_configs([{}, {'attention_score': 'additive'}, T5])
@pytest.mark.slow_cases('attention_score=additive')
def test_cached_decode_of_several_hypotheses_equals_full_forward(config):
    """N = B * W hypotheses, all different, W of a sentence side by side; the source is given once."""
    width = 2
    target_in = np.random.default_rng(0).integers(1, V, (B, width, T))
    got = decode_all(config, SOURCE, target_in.reshape(B * width, T), width).reshape(B, width, T, V)
    for w in range(width):
        expected = jitted(config)(SOURCE, target_in[:, w])
        np.testing.assert_allclose(got[:, w], expected, **REORDERED)


def num_parameters(config):
    tokens = jnp.zeros((1, 2), jnp.int32)
    shapes = jax.eval_shape(Transformer(config).init, jax.random.key(0), tokens, tokens)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def layers(d, f, num_layers=6):
    """Parameters of two stacks: 4 + 8 matrices without biases (point 3), 2 feed-forwards, 2 + 3 norms; no final one."""
    return num_layers * (12 * d * d + 2 * (2 * d * f + f + d) + 5 * 2 * d)


def test_base_model_has_63_million_parameters():
    """Point 2: one matrix for all. Table 3 of the paper says 65 million, at a vocabulary of "about 37,000"."""
    assert num_parameters(TransformerConfig()) == 37_000 * 512 + layers(512, 2048) == 63_045_632


def test_initial_values_are_those_of_the_paper():
    """Points 1, 4 and 10, from the model's own init: the tolerances are five deviations of 2,048 draws, the fewest."""
    widths = {'vocab_size': 300, 'd_model': 64, 'num_heads': 4, 'head_dim': 8, 'd_ff': 96}
    config = small(**widths, tie_embeddings='none')
    tokens = jnp.ones((1, 2), jnp.int32)
    params = jax.jit(Transformer(config).init)(jax.random.key(0), tokens, tokens)['params']
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        values, name = np.asarray(leaf), path[-1].key
        if name == 'table':
            np.testing.assert_allclose(values.std(), 64**-0.5, rtol=0.05)
        elif name in ('kernel', 'projection'):
            np.testing.assert_allclose(values.var(), 2 / sum(values.shape), rtol=0.1)
            assert np.abs(values).max() <= np.sqrt(6 / sum(values.shape))
        else:
            assert (values == (1 if name == 'scale' else 0)).all()


def test_cross_attention_rows_are_distributions_over_the_real_source():
    config = small(num_decoder_layers=3)
    weights = np.asarray(jitted(config, 'cross_attention')(SOURCE, TARGET_IN))
    assert weights.shape == (3, B, 4, T, S)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)  # one rounding a key
    hidden = np.broadcast_to((SOURCE == 0)[None, :, None, None], weights.shape)
    assert (weights[hidden] == 0).all()
    assert (weights[~hidden] > 0).all()


@pytest.mark.slow
def test_cross_attention_is_what_the_decoder_uses():
    """Memory of one token leaves each head no choice; of several, the weights recombine to the layer's own output."""
    config = small(num_decoder_layers=2)
    model, variables = Transformer(config), random_variables(config)
    seen = {}

    def record(next_function, args, kwargs, context):
        out = next_function(*args, **kwargs)
        if context.module.name == 'cross_attention':
            seen[context.method_name] = out  # the last layer's stays
        return out

    def attended(source, target_in):
        with nn.intercept_methods(record):
            model.apply(variables, source, target_in)
        return seen, model.apply(variables, source, target_in, method='cross_attention')[1]

    seen, weights = jax.device_get(jax.jit(attended)(SOURCE, TARGET_IN))
    heads = np.einsum('BHTS,BSHK->BTHK', weights, seen['project_memory'][1]).reshape(B, T, -1)
    kernel = np.asarray(variables['params']['decoder']['layers_1']['cross_attention']['output']['kernel'])
    np.testing.assert_allclose(heads @ kernel, seen['__call__'], **REORDERED)


@pytest.mark.parametrize('tie_embeddings', ['all', 'none'])
@pytest.mark.slow_cases('none')
def test_bfloat16_computes_on_float32_parameters_and_gives_float32_logits(tie_embeddings):
    """Point 7. A bfloat16 has 8 bits: a few sublayers' roundings of 0.4 % leave logits of size 6 some 0.1 off."""
    config, reference = small(tie_embeddings=tie_embeddings, dtype='bfloat16'), small(tie_embeddings=tie_embeddings)
    model, variables = Transformer(config), random_variables(config)
    tokens = jnp.zeros((1, 2), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype('float32')}
    logits = jax.jit(model.apply)(variables, SOURCE, TARGET_IN)
    assert logits.dtype == jnp.float32
    assert jax.eval_shape(lambda: model.apply(variables, SOURCE, method='encode')).dtype == jnp.bfloat16
    state = jax.eval_shape(lambda: with_room(model.apply(variables, SOURCE, method='start'), T, 1))
    assert state.slots[0].k.dtype == jnp.bfloat16
    step, _ = jax.eval_shape(lambda state: model.apply(variables, TARGET_IN[:, 0], state, method='decode'), state)
    assert step.dtype == jnp.float32
    error = np.abs(np.asarray(logits) - full_logits(reference))
    assert 1e-3 < error.max() < 0.5


@pytest.mark.parametrize(
    ('platform', 'dtype', 'attention'),
    [
        (None, 'float32', 'plain'),
        ('cpu', 'float32', 'plain'),
        ('gpu', 'bfloat16', 'cudnn'),
        ('tpu', 'bfloat16', 'plain'),
    ],
)
def test_auto_is_resolved_by_platform(platform, dtype, attention):
    resolved = resolve_dtype(small(dtype='auto', attention='cudnn', head_dim=8), platform)
    assert (resolved.dtype, resolved.attention) == (dtype, attention)
    assert resolve_dtype(resolved, platform) == resolved
    assert resolve_dtype(small(attention='auto'), platform).attention == 'plain'  # to translate


@pytest.mark.parametrize(
    ('capability', 'changes', 'attention'),
    [
        ('9.0', {}, 'cudnn'),
        ('8.0', {}, 'cudnn'),
        ('7.5', {}, 'plain'),  # a T4
        ('gfx942', {}, 'plain'),  # of AMD
        (None, {}, 'plain'),
        ('9.0', {'attention': 'plain'}, 'plain'),
        ('9.0', {'attention_dropout_rate': 0.1}, 'plain'),
        ('9.0', {'positions': 'relative'}, 'plain'),
        ('9.0', {'dtype': 'float32'}, 'plain'),
        ('9.0', {'head_dim': 136}, 'plain'),
        ('9.0', {'head_dim': 136, 'attention': 'cudnn'}, 'cudnn'),  # as asked
    ],
)
def test_attention_to_train_is_chosen_by_device_and_settings(capability, changes, attention):
    device = SimpleNamespace(platform='gpu', compute_capability=capability)
    config = small(**({'dtype': 'auto', 'head_dim': 8} | changes))
    assert with_fastest_attention(config, device).attention == attention
    assert with_fastest_attention(small(), jax.devices()[0]).attention == 'plain'

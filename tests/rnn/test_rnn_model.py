"""The attention RNN: against NumPy, one token at a time, packed, padded, in bfloat16, sharded; its FLOPs and faults."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import numpy_rnn
import pytest
from traced import products, sums_over_tokens

from flax_transformer.common.errors import UserError
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.rnn.layers import RecurrentLayer
from flax_transformer.rnn.model import SHARDING_RULES, AttentionRNN, forward_flops, init_params

V = 23
SOURCE = np.array([[4, 9, 2, 1, 0, 0], [7, 7, 3, 22, 5, 1], [1, 0, 0, 0, 0, 0]])
TARGET_IN = np.array([[0, 8, 6, 1, 0], [0, 3, 19, 4, 11], [0, 5, 1, 0, 0]])
SWAPPED = np.array([1, 0, 3, 2, 5, 4])  # the two hypotheses of each sentence

# The first two of these sentence pairs in one row, then the third and a short one; segment 0 is padding.
PACKED = {
    'source': np.array([[4, 9, 2, 1, 7, 7, 3, 22, 5, 1, 0], [1, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0]]),
    'target_in': np.array([[0, 8, 6, 0, 3, 19, 4, 11], [0, 5, 0, 9, 9, 0, 0, 0]]),
    'source_segments': np.array([[1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0], [1, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0]]),
    'target_segments': np.array([[1, 1, 1, 2, 2, 2, 2, 2], [1, 1, 2, 2, 2, 0, 0, 0]]),
}

# Logits of up to 3 from sums in float32; faults made on purpose change them by 1e-2 and more.
CLOSE = {'rtol': 0, 'atol': 1e-5}

CONFIGS = {
    'additive': {'num_encoder_layers': 2, 'num_decoder_layers': 2},
    'multiplicative': {'cell': 'gru', 'attention': 'multiplicative', 'tie_embeddings': 'target', 'logits_bias': True},
    'additive, not fed': {'cell': 'gru', 'input_feeding': False, 'num_decoder_layers': 2, 'attention_size': 5},
    'multiplicative, not fed': {'attention': 'multiplicative', 'input_feeding': False, 'tie_embeddings': 'none'},
    'no attention': {'cell': 'gru', 'attention': 'none'},
}


def small(**changes):
    return RecurrentConfig(**{'vocab_size': V, 'd_model': 8, 'hidden_size': 6, 'dtype': 'float32'} | changes)


def parameter_shapes(config):
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


@functools.cache
def variables(config):
    """Random values everywhere, large enough for attention to be far from uniform."""
    rng = np.random.default_rng(0)
    width = lambda leaf: leaf.shape[0] if leaf.ndim == 2 else 3
    draw = lambda leaf: np.float32(1.5 * rng.normal(size=leaf.shape) * width(leaf) ** -0.5)
    return {'params': jax.tree.map(draw, parameter_shapes(config))}


@functools.cache
def jitted(config, method):
    """Returns NumPy arrays."""
    program = jax.jit(functools.partial(AttentionRNN(config).apply, method=method))
    return lambda *args, **rest: jax.device_get(program(*args, **rest))


@pytest.mark.parametrize('name', CONFIGS)
@pytest.mark.slow_cases('additive, not fed', 'multiplicative', 'no attention')
def test_packed_rows_give_the_logits_of_loops_in_numpy(name) -> None:
    config = small(**CONFIGS[name])
    logits = jitted(config, '__call__')(variables(config), **PACKED)
    for row in range(2):
        for segment in (1, 2):
            source, target = (PACKED[f'{side}_segments'][row] == segment for side in ('source', 'target'))
            rows = PACKED['source'][row][source], PACKED['target_in'][row][target]
            expected = numpy_rnn.forward(variables(config)['params'], config, *rows)
            np.testing.assert_allclose(logits[row][target], expected, **CLOSE)


@pytest.mark.parametrize('name', ['additive', 'multiplicative, not fed'])
@pytest.mark.slow_cases('multiplicative, not fed')
def test_one_token_at_a_time_is_all_at_once(name) -> None:
    """With two hypotheses of each sentence, which change places once, and sources with more padding."""
    config = small(**CONFIGS[name])
    params, step = variables(config), jitted(config, 'decode_with_attention')
    state = jitted(config, 'start')(params, SOURCE)
    state = state._replace(cache=jax.tree.map(lambda x: np.repeat(x, 2, axis=0), state.cache))
    targets = np.stack([TARGET_IN, TARGET_IN[:, ::-1]], axis=1).reshape(6, -1)
    targets[:, 0] = 0
    logits, seen = [], []
    for position in range(5):
        if position == 3:
            targets, logits, seen = targets[SWAPPED], [x[SWAPPED] for x in logits], [x[SWAPPED] for x in seen]
            state = state._replace(cache=jax.tree.map(lambda x: x[SWAPPED], state.cache))
        of_token, weights, state = step(params, targets[:, position], state)
        logits.append(of_token)
        seen.append(weights)
    assert state.position == 5
    sources = np.pad(np.repeat(SOURCE, 2, axis=0), ((0, 0), (0, 2)))
    model = AttentionRNN(config)
    at_once = jax.jit(lambda *args: (model.apply(*args), model.apply(*args, method='cross_attention')))
    expected, attention = jax.device_get(at_once(params, sources, targets))
    np.testing.assert_allclose(np.stack(logits, 1), expected, **CLOSE)
    assert attention.shape == (1, 6, 1, 5, 8)
    np.testing.assert_allclose(np.stack(seen, 1), attention[0, :, 0, :, :6], **CLOSE)
    np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-6)


def test_a_fresh_layer_keeps_the_length_of_its_state() -> None:
    """The recurrent weights of each gate are orthogonal."""
    layer = RecurrentLayer(4, 3, 'gru')
    params = jax.jit(layer.init)(jax.random.key(0), np.ones((1, 1, 4), np.float32), np.ones((1, 1)))['params']
    gates = np.asarray(params['recurrent']['kernel']).reshape(3, 3, 3)
    np.testing.assert_allclose(np.einsum('HGE,HGF->GEF', gates, gates), [np.eye(3)] * 3, atol=1e-5)


@pytest.mark.parametrize(
    ('cell', 'attention', 'input_feeding'),
    [('lstm', 'additive', True), ('gru', 'multiplicative', False)],
)
@pytest.mark.slow
def test_no_sum_over_a_batch_is_in_bfloat16(cell, attention, input_feeding) -> None:
    fields = {'cell': cell, 'attention': attention, 'input_feeding': input_feeding, 'num_decoder_layers': 2}
    config = RecurrentConfig(vocab_size=29, d_model=16, hidden_size=12, **fields, dtype='bfloat16')
    model = AttentionRNN(config)
    ids = jnp.ones((11, 5), jnp.int32), jnp.ones((11, 7), jnp.int32)  # none is the size of anything else
    options = {'deterministic': False, 'rngs': {'dropout': jax.random.key(0)}}
    gradient = jax.grad(lambda params: (model.apply({'params': params}, *ids, **options) ** 2).sum())
    found = list(sums_over_tokens(jax.make_jaxpr(gradient)(parameter_shapes(config)).jaxpr, {11, 5, 7, 55, 77}))
    assert len(found) > 20
    assert [text for text, dtype in found if dtype != jnp.float32] == []


@pytest.mark.parametrize('attention', ['additive', 'multiplicative', 'none'])
def test_every_parameter_has_a_rule(attention) -> None:
    tie = 'none' if attention == 'none' else 'target'
    config = RecurrentConfig(attention=attention, num_decoder_layers=2, tie_embeddings=tie, logits_bias=True)
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameter_shapes(config)):
        name = '/'.join(part.key for part in path)
        axes = next((axes for rule, axes in SHARDING_RULES if re.search(f'{rule}$', name)), None)
        assert axes is not None, name
        assert len(axes) in (0, leaf.ndim), name


SIZES = {'vocab_size': 50, 'd_model': 16, 'hidden_size': 12, 'num_encoder_layers': 2, 'num_decoder_layers': 2}
SLOTS = 7, 5


@pytest.mark.parametrize(
    ('cell', 'attention', 'input_feeding'),
    [
        ('lstm', 'multiplicative', False),
        ('lstm', 'none', True),
        ('gru', 'additive', False),
    ],
)
@pytest.mark.slow
def test_flops_are_those_of_the_traced_products(cell, attention, input_feeding) -> None:
    config = RecurrentConfig(**SIZES, cell=cell, attention=attention, input_feeding=input_feeding, dtype='float32')
    model, ids = AttentionRNN(config), [jnp.ones((1, slots), jnp.int32) for slots in SLOTS]
    loss = lambda params: (model.apply({'params': params}, *ids) ** 2).sum()
    shapes, expected = parameter_shapes(config), forward_flops(config, *SLOTS).total
    assert products(jax.make_jaxpr(loss)(shapes).jaxpr) == expected
    assert products(jax.make_jaxpr(jax.grad(loss))(shapes).jaxpr) == 3 * expected


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'hidden_size': 0}, 'hidden_size=0'),
        ({'attention_size': 0}, 'attention_size=0'),
        ({'attention_size': 4, 'attention': 'none'}, "attention='none'"),
        ({'cell': 'ltsm'}, "cell='ltsm'"),
        ({'target_vocab_size': 5}, "tie_embeddings='all'"),
        ({'eos_id': 40_000}, 'vocab_size'),
        ({'pad_id': 1}, 'pad_id and eos_id are both 1'),
        ({'num_encoder_layers': 101}, 'expected at most 100'),
    ],
)
def test_faults_are_refused(fields, message) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        RecurrentConfig(**fields)

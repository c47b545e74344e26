"""Gradients in bfloat16: what is summed over a batch is summed in float32."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_translation import LOSS, MODEL, uneven_batch
from traced import equations, sums_over_tokens

from flax_transformer.ops.dense import Dense
from flax_transformer.ops.embedding import Embedding, Embeddings
from flax_transformer.transformer.attention import attention, masked_softmax
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import Positions, Residual
from flax_transformer.transformer.model import Transformer, parameter_shapes, resolve_dtype

ROWS, SOURCE, TARGET = 11, 5, 7  # none is the size of anything else
TOKENS = {ROWS, SOURCE, TARGET, ROWS * SOURCE, ROWS * TARGET}
SIZES = {'vocab_size': 29, 'd_model': 16, 'num_heads': 2, 'head_dim': 10, 'd_ff': 24, 'max_length': 13}
LAYERS = {'num_encoder_layers': 1, 'num_decoder_layers': 1}
COUNT = 2000  # occurrences of a token


@pytest.mark.parametrize(
    ('departures', 'remat'),
    [
        ({}, False),
        ({}, True),
        ({'norm_first': True, 'attention_bias': True, 'positions': 'learned', 'tie_embeddings': 'none'}, False),
    ],
    ids=['paper', 'remat', 'departures'],
)
@pytest.mark.slow_cases('departures', 'remat')
def test_no_sum_over_a_batch_is_in_bfloat16(departures, remat) -> None:
    model = Transformer(TransformerConfig(**SIZES, **LAYERS, **departures, dtype='bfloat16'), remat)
    ids = jnp.ones((ROWS, SOURCE), jnp.int32), jnp.ones((ROWS, TARGET), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), *ids)
    options = {'deterministic': False, 'rngs': {'dropout': jax.random.key(0)}}
    gradient = jax.grad(lambda variables: (model.apply(variables, *ids, **options) ** 2).sum())
    found = list(sums_over_tokens(jax.make_jaxpr(gradient)(shapes).jaxpr, TOKENS))
    assert len(found) > 40
    assert [text for text, dtype in found if dtype != jnp.float32] == []


def test_auto_is_float32_on_cpus_and_bfloat16_elsewhere() -> None:
    dtypes = [resolve_dtype(TransformerConfig(), platform).dtype for platform in ('cpu', 'gpu', 'tpu')]
    assert dtypes == ['float32', 'bfloat16', 'bfloat16']


@pytest.mark.parametrize(('capability', 'dtype'), [('7.5', 'float32'), ('8.0', 'bfloat16'), ('gfx942', 'bfloat16')])
def test_auto_is_float32_on_a_gpu_that_lacks_bfloat16(
    capability: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    monkeypatch.setattr(jax, 'local_devices', lambda: [SimpleNamespace(compute_capability=capability)])
    assert resolve_dtype(TransformerConfig()).dtype == resolve_dtype(TransformerConfig(), 'gpu').dtype == dtype
    assert resolve_dtype(TransformerConfig(), 'cpu').dtype == 'float32'
    fused = resolve_dtype(TransformerConfig(attention='cudnn'))  # which is in bfloat16
    assert fused.attention == {'float32': 'plain', 'bfloat16': 'cudnn'}[dtype]


@pytest.mark.slow
def test_no_product_of_a_bfloat16_models_gradient_reads_float32() -> None:
    """Not even those of logits and attention scores, which are float32."""
    model = Transformer(replace(MODEL, dtype='bfloat16'))
    loss = lambda params: LOSS(params, uneven_batch(), jax.random.key(0), model=model, loss_chunk=32)[0]
    traced = jax.make_jaxpr(jax.grad(loss))(parameter_shapes(MODEL))
    read = [
        x.aval.dtype for each in equations(traced.jaxpr) if each.primitive.name == 'dot_general' for x in each.invars
    ]
    assert len(read) > 80
    assert set(read) == {jnp.dtype('bfloat16')}
    scans = (each.params['jaxpr'].jaxpr for each in equations(traced.jaxpr) if each.primitive.name == 'scan')
    cast = [one.outvars[0].aval.shape for scan in scans for one in equations(scan) if 'convert' in one.primitive.name]
    assert cast
    assert (MODEL.vocab_size, MODEL.d_model) not in cast  # once, before the chunks


@pytest.mark.slow
def test_no_float32_scores_or_weights_are_kept_for_the_gradient_of_attention() -> None:
    x = jax.ShapeDtypeStruct((2, 5, 2, 10), jnp.bfloat16)
    kept = jax.tree.leaves(jax.eval_shape(lambda *x: jax.vjp(attention, *x)[1], x, x, x))
    assert {each.dtype for each in kept if each.shape == (2, 2, 5, 5)} == {jnp.dtype('bfloat16')}
    scores, factors = np.random.default_rng(0).normal(size=(2, 5, 7)).astype(np.float32)
    sums = lambda scores, dtype: (masked_softmax(scores, dtype=dtype) * factors).sum()
    exact, found = (jax.grad(sums)(scores, dtype) for dtype in (jnp.float32, jnp.bfloat16))
    np.testing.assert_allclose(found, exact, atol=4e-3)  # eight bits of weights up to 1


@pytest.mark.parametrize('tied', ['all', 'none'])
def test_logits_are_float32_sums(tied: str) -> None:
    module = Embeddings(replace(MODEL, tie_embeddings=tied), dtype=jnp.bfloat16)
    x = jax.ShapeDtypeStruct((2, 3, MODEL.d_model), jnp.bfloat16)
    variables = jax.eval_shape(lambda x: module.init(jax.random.key(0), x, method='logits'), x)
    traced = jax.make_jaxpr(lambda variables, x: module.apply(variables, x, method='logits'))(variables, x)
    sums = {eqn.outvars[0].aval.dtype for eqn in equations(traced.jaxpr) if eqn.primitive.name == 'dot_general'}
    assert sums == {jnp.dtype('float32')}


class Logits(nn.Module):
    """A table as it gives logits."""

    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return Embedding(24, 16, pad_id=0, dtype=self.dtype).logits(x)


def case_of(name: str, dtype: jnp.dtype) -> tuple[nn.Module, tuple[Any, ...]]:
    """A module and its inputs, in which parameters are used COUNT times."""
    x = np.random.default_rng(0).normal(size=(1, COUNT, 16)).astype(jnp.bfloat16).astype(dtype)
    token = np.full((1, COUNT), 5)
    norm = TransformerConfig(d_model=16, dropout_rate=0.0, dtype=jnp.dtype(dtype).name)
    return {
        'embedding': lambda: (Embedding(24, 16, pad_id=0, dtype=dtype), (token,)),
        'positions': lambda: (Positions(16, 'learned', 8, dtype), (x.reshape(-1, 4, 16), token[:, :4], 8)),
        'dense': lambda: (Dense(16, 24, dtype=dtype), (x,)),
        'norm': lambda: (Residual(norm), (x, jnp.zeros_like)),
        'logits': lambda: (Logits(dtype), (x,)),
    }[name]()


@pytest.mark.parametrize('name', ['embedding', 'positions', 'dense', 'norm', 'logits'])
def test_gradient_of_what_occurs_2000_times(name) -> None:
    """Every number that enters has eight bits, so that the sum alone could lose any.

    Cotangents lean one way, as those of a frequent token may: a bfloat16 sum of them stops growing halfway.
    """

    def gradients(dtype: jnp.dtype) -> Any:
        module, inputs = case_of(name, dtype)
        apply = lambda variables: module.apply(variables, *inputs)
        shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), *inputs))
        rng = np.random.default_rng(1)
        rounded = lambda shape: rng.normal(size=shape).astype(jnp.bfloat16).astype(np.float32)
        variables = jax.tree.map(lambda leaf: rounded(leaf.shape), shapes)
        shape = jax.eval_shape(apply, variables).shape
        weights = (rounded(shape) + 1).astype(jnp.bfloat16).astype(np.float32)
        return jax.jit(jax.grad(lambda variables: (apply(variables) * weights).sum()))(variables)

    exact, found = gradients(jnp.float32), gradients(jnp.bfloat16)
    for expected, got in zip(jax.tree.leaves(exact), jax.tree.leaves(found), strict=True):
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(
            got,
            expected,
            rtol=0,
            atol=1e-5 * np.abs(expected).max(),  # the order of float32 sums
        )

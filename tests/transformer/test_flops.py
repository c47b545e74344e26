"""FLOPs by formula, by hand, by the products that JAX traces, and by XLA's own count."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from traced import products

from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.flops import forward_flops
from flax_transformer.transformer.model import Transformer

SMALL = TransformerConfig(
    vocab_size=50, d_model=16, num_heads=4, head_dim=6, d_ff=24, num_encoder_layers=2, num_decoder_layers=3
)
SOURCE, TARGET = 7, 5


def traced(config: TransformerConfig, source: int, target: int):
    """The parameters' shapes, and the model as a function of them over one row."""
    model = Transformer(config)
    ids = jnp.ones((1, source), jnp.int32), jnp.ones((1, target), jnp.int32)
    params = jax.eval_shape(model.init, jax.random.key(0), *ids)
    return params, lambda params: model.apply(params, *ids)


@pytest.mark.parametrize('changes', [{}, {'attention_score': 'additive'}, {'gated': True, 'positions': 'relative'}])
def test_forward_flops_are_those_of_the_traced_products(changes: dict) -> None:
    config = replace(SMALL, **changes)
    params, forward = traced(config, SOURCE, TARGET)
    assert forward_flops(config, SOURCE, TARGET).total == products(jax.make_jaxpr(forward)(params).jaxpr)


@pytest.mark.slow
def test_the_backward_pass_has_twice_the_products_of_the_forward_pass() -> None:
    params, forward = traced(SMALL, SOURCE, TARGET)
    jaxpr = jax.make_jaxpr(jax.grad(lambda params: (forward(params) ** 2).sum()))(params).jaxpr
    assert products(jaxpr) == 3 * forward_flops(SMALL, SOURCE, TARGET).total


def test_flops_of_the_base_model_by_hand() -> None:
    """Base: d_model 512, d_ff 2048, 6 + 6 layers, 37,000 pieces; a row of 256 + 256 slots."""
    flops = forward_flops(TransformerConfig(), 256, 256)
    # Two FLOPs for each weight: encoder layer 4 x 512^2 + 2 x 512 x 2048 weights.
    assert flops.encoder == 256 * 6 * 2 * (4 * 512**2 + 2 * 512 * 2048)
    assert flops.decoder == 256 * 6 * 2 * (8 * 512**2 + 2 * 512 * 2048)
    # Two products of 256 x 256 x 512 in each of 6 + 12 attentions.
    assert flops.attention == 18 * 2 * 2 * 256 * 256 * 512
    assert flops.logits == 256 * 2 * 512 * 37_000

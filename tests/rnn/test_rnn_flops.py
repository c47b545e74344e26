"""FLOPs by formula against the products that JAX traces."""

import jax
import jax.numpy as jnp
import pytest
from traced import products

from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.rnn.model import AttentionRNN, forward_flops, parameter_shapes

SIZES = {'vocab_size': 50, 'd_model': 16, 'hidden_size': 12, 'num_encoder_layers': 2, 'num_decoder_layers': 2}
SOURCE, TARGET = 7, 5


@pytest.mark.parametrize(
    ('cell', 'attention', 'input_feeding'),
    [
        ('lstm', 'multiplicative', False),
        ('lstm', 'none', True),
        ('gru', 'additive', False),
    ],
)
def test_flops_are_those_of_the_traced_products(cell, attention, input_feeding) -> None:
    config = RecurrentConfig(**SIZES, cell=cell, attention=attention, input_feeding=input_feeding, dtype='float32')
    model, ids = AttentionRNN(config), (jnp.ones((1, SOURCE), jnp.int32), jnp.ones((1, TARGET), jnp.int32))
    loss = lambda params: (model.apply({'params': params}, *ids) ** 2).sum()
    shapes, expected = parameter_shapes(config), forward_flops(config, SOURCE, TARGET).total
    assert products(jax.make_jaxpr(loss)(shapes).jaxpr) == expected
    assert products(jax.make_jaxpr(jax.grad(loss))(shapes).jaxpr) == 3 * expected


def test_flops_by_part_by_hand() -> None:
    """Two FLOPs for each weight, and for each weight of a mean over 7 annotations."""
    flops = forward_flops(RecurrentConfig(**SIZES), SOURCE, TARGET)
    assert flops.encoder == SOURCE * 2 * (2 * 48 * (16 + 12) + 2 * 48 * (24 + 12))
    assert flops.attention == TARGET * SOURCE * 2 * (12 + 24)
    assert flops.logits == TARGET * 2 * 16 * 50

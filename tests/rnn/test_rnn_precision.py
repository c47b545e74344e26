"""bfloat16: it runs, and gradients that add up over a batch do so in float32."""

import jax
import jax.numpy as jnp
import pytest
from traced import sums_over_tokens

from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.rnn.model import AttentionRNN, parameter_shapes

ROWS, SOURCE, TARGET = 11, 5, 7  # none is the size of anything else
TOKENS = {ROWS, SOURCE, TARGET, ROWS * SOURCE, ROWS * TARGET}


@pytest.mark.parametrize(
    ('cell', 'attention', 'input_feeding'),
    [('lstm', 'additive', True), ('gru', 'multiplicative', False)],
)
def test_no_sum_over_a_batch_is_in_bfloat16(cell, attention, input_feeding) -> None:
    fields = {'cell': cell, 'attention': attention, 'input_feeding': input_feeding, 'num_decoder_layers': 2}
    config = RecurrentConfig(vocab_size=29, d_model=16, hidden_size=12, **fields, dtype='bfloat16')
    model = AttentionRNN(config)
    ids = jnp.ones((ROWS, SOURCE), jnp.int32), jnp.ones((ROWS, TARGET), jnp.int32)
    options = {'deterministic': False, 'rngs': {'dropout': jax.random.key(0)}}
    gradient = jax.grad(lambda params: (model.apply({'params': params}, *ids, **options) ** 2).sum())
    found = list(sums_over_tokens(jax.make_jaxpr(gradient)(parameter_shapes(config)).jaxpr, TOKENS))
    assert len(found) > 20
    assert [text for text, dtype in found if dtype != jnp.float32] == []

"""Every parameter of every kind of model has a rule of its own dimensions."""

import re

import jax
import pytest

from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.rnn.model import SHARDING_RULES, parameter_shapes


@pytest.mark.parametrize('attention', ['additive', 'multiplicative', 'none'])
def test_every_parameter_has_a_rule(attention) -> None:
    tie = 'none' if attention == 'none' else 'target'
    config = RecurrentConfig(attention=attention, num_decoder_layers=2, tie_embeddings=tie, logits_bias=True)
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameter_shapes(config)):
        name = '/'.join(part.key for part in path)
        axes = next((axes for rule, axes in SHARDING_RULES if re.search(f'{rule}$', name)), None)
        assert axes is not None, name
        assert len(axes) in (0, leaf.ndim), name

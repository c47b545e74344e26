"""In eight bits, on CPUs, the shape of a batch changes no bit of a sentence."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from tiny_translation import drawn

from flax_transformer.common.compilation_cache import processor_features
from flax_transformer.config import TransformerConfig
from flax_transformer.ops.batch_invariance import batch_invariance, is_batch_invariant
from flax_transformer.ops.decoding_weights import for_decoding
from flax_transformer.transformer.model import Transformer, parameter_shapes

MODEL = TransformerConfig(
    vocab_size=40, d_model=64, d_ff=128, num_heads=4, num_encoder_layers=2, num_decoder_layers=1
)  # fmt: skip

measured_there = pytest.mark.skipif(
    'avx512_vnni' not in processor_features().split(), reason='XLA promises it nowhere; measured with AVX-512 and VNNI'
)


def memories(model: Transformer, weights: object, source: np.ndarray) -> jax.Array:
    return jax.jit(partial(model.apply, method='encode'))({'params': weights}, source)


def test_only_within_and_only_on_request():
    seen = []
    for is_wanted in (True, False):
        with batch_invariance(is_wanted):
            seen.append(is_batch_invariant())
    assert (*seen, is_batch_invariant()) == (True, False, False)


@pytest.mark.parametrize('norm', ['layer', pytest.param('rms', marks=pytest.mark.slow)])
def test_the_forms_compute_the_same(norm):
    model = Transformer(replace(MODEL, norm=norm))
    params, ids = drawn(parameter_shapes(model.config)), np.array([[5, 9, 3, 1, 0, 0], [4, 8, 8, 7, 9, 1]])
    logits = {}
    for is_wanted in (True, False):
        with batch_invariance(is_wanted):
            logits[is_wanted] = jax.jit(partial(model.apply))({'params': params}, ids, ids)
    found, expected = logits[True], logits[False]
    assert (np.asarray(found) != np.asarray(expected)).any()
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@measured_there
def test_neither_rows_nor_slots_change_a_bit_of_the_memory():
    model = Transformer(MODEL)
    weights = for_decoding(drawn(parameter_shapes(MODEL)), 'uint8')
    source = np.zeros((24, 32), int)
    source[:, :12] = np.random.default_rng(0).integers(3, 40, (24, 12))
    equal = {}
    for is_wanted in (True, False):
        with batch_invariance(is_wanted):
            few, many = (memories(model, weights, source[:rows, :slots]) for rows, slots in ((1, 12), (24, 32)))
        equal[is_wanted] = np.array_equal(few[0], many[0, :12])
    assert equal == {True: True, False: False}

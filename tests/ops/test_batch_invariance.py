"""Where `auto` chooses eight bits, the shape of a batch changes no bit of a sentence."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from tiny_translation import drawn

from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.ops.batch_invariance import batch_invariance, is_batch_invariant, is_measured
from flax_transformer.ops.decoding_weights import for_decoding
from flax_transformer.tasks.translation.inference.ids import SpecialIds, translate_ids
from flax_transformer.transformer.model import Transformer, parameter_shapes

MODEL = TransformerConfig(
    vocab_size=40, d_model=64, d_ff=128, num_heads=1, num_encoder_layers=2, num_decoder_layers=1
)  # fmt: skip

measured_there = pytest.mark.skipif(not is_measured(), reason='measured with JAX 0.10, AVX-512 and VNNI alone')


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
@pytest.mark.parametrize('slots', [32, 64, pytest.param(100, marks=pytest.mark.slow)])
def test_neither_rows_nor_slots_change_a_bit_of_the_memory(slots):
    model = Transformer(MODEL)
    weights = for_decoding(drawn(parameter_shapes(MODEL)), 'uint8')
    source = np.zeros((24, slots), int)
    source[:, :12] = np.random.default_rng(0).integers(3, 40, (24, 12))
    with batch_invariance(True):
        few, many = (memories(model, weights, source[:rows, :width]) for rows, width in ((1, 12), (24, slots)))
    np.testing.assert_array_equal(few[0], many[0, :12])


@measured_there
@pytest.mark.parametrize('beam', [4, pytest.param(1, marks=pytest.mark.slow)])
def test_nor_of_a_translation_that_auto_lets_be_in_int8(beam):
    decoding = DecodingConfig(weights='auto', beam_width=beam, max_tokens=6)
    search = partial(translate_ids, models=[Transformer(MODEL)], special_ids=SpecialIds(0, 1), decoding=decoding)
    weights = for_decoding(drawn(parameter_shapes(MODEL)), 'uint8')
    source = np.zeros((6, 40), int)
    source[:, :12] = np.random.default_rng(0).integers(3, 40, (6, 12))
    alone, among = (jax.jit(search)(weights, source[:rows, :width]) for rows, width in ((1, 12), (6, 40)))
    for name in ('tokens', 'scores', 'token_log_probs'):
        np.testing.assert_array_equal(getattr(alone, name)[0], getattr(among, name)[0])


@pytest.mark.parametrize('fields', [{'norm': 'group'}, {'attention_score': 'additive'}, {'num_heads': 4}])
def test_a_model_without_such_forms_says_so(fields):
    assert Transformer(MODEL).supports_batch_invariance
    assert not Transformer(replace(MODEL, **fields)).supports_batch_invariance

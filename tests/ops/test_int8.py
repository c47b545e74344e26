"""Weights in eight bits: how far from what they stand for, and translations with them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_translation import drawn

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.ops import int8
from flax_transformer.ops.decoding_weights import for_decoding
from flax_transformer.ops.dense import Dense
from flax_transformer.ops.embedding import Embedding
from flax_transformer.ops.int8 import Quantized, for_signed_inputs, quantize, raised, to_int8
from flax_transformer.tasks.translation.evaluation import analyze
from flax_transformer.tasks.translation.inference.ids import SpecialIds, translate_ids
from flax_transformer.transformer.model import Transformer, parameter_shapes

int8_product = jax.jit(int8.int8_product, static_argnames='axis')


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize('axis', [0, 1])
def test_an_integer_is_at_most_half_a_step_away(axis):
    x = random(7, 5)
    x[2] = x[:, 3] = 0
    integers, scale = map(np.asarray, quantize(x, axis))
    assert integers.dtype == jnp.int8
    back = integers * np.expand_dims(scale, axis)
    assert (np.abs(back - x) <= np.expand_dims(scale, axis) * 0.5001).all()
    # The largest of each column, or row, is 127 or -127, but where all are zero.
    largest = np.abs(integers).max(axis=axis)
    assert set(largest.tolist()) <= {0, 127}
    assert (largest == 127).sum() == (np.abs(x).max(axis=axis) > 0).sum()


@pytest.mark.parametrize('width', [7, 256])
def test_a_few_rows_are_quantized_as_they_are_among_many(width):
    x = random(20, width)
    x[1] = 0
    few, many = (jax.jit(int8.quantized_inputs)(rows) for rows in (x[:3], x))
    jax.tree.map(np.testing.assert_array_equal, few, jax.tree.map(lambda leaf: leaf[:3], many))


@pytest.mark.parametrize('shape', [(6,), pytest.param((1, 6), marks=pytest.mark.slow), (2, 3, 6)])
def test_a_product_is_that_of_the_integers(shape):
    x, weight = random(*shape), random(6, 4, seed=1)
    integers, scale = quantize(weight, 0)
    rows = np.asarray(x, np.float64).reshape(-1, 6)
    steps = np.abs(rows).max(axis=1, keepdims=True) / 127
    expected = (np.rint(rows / steps) * steps) @ (np.asarray(integers, np.float64) * np.asarray(scale, np.float64))
    found = int8_product(x, Quantized(integers, scale))
    np.testing.assert_allclose(found, expected.reshape(*shape[:-1], 4), rtol=1e-5, atol=1e-6)
    turned = int8_product(x, Quantized(integers.T, scale), axis=1)
    np.testing.assert_array_equal(found, turned)
    assert np.abs(found - x @ weight).max() < 0.1


@pytest.mark.parametrize('axis', [0, 1])
def test_unsigned_inputs_give_the_same_product(axis):
    weight = quantize(random(*((6, 4) if axis == 0 else (4, 6)), seed=1), axis)
    for_unsigned = raised(weight, axis)
    jax.tree.map(np.testing.assert_array_equal, for_signed_inputs({'a': for_unsigned}), {'a': weight})
    for shape in ((6,), (2, 3, 6)):
        x = random(*shape)
        found, expected = (int8_product(x, each, axis=axis) for each in (for_unsigned, weight))
        np.testing.assert_array_equal(found, expected)
    with jax.disable_jit():
        np.testing.assert_allclose(int8.int8_product(x, for_unsigned, axis), expected, rtol=1e-6)
    mapped = jax.vmap(partial(int8.int8_product, weight=for_unsigned, axis=axis))(x)
    np.testing.assert_allclose(mapped, expected, rtol=1e-6)

    # Of any number of rows, as an exported program has them.
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape('n, 6'), jnp.float32)
    exported = jax.export.export(jax.jit(partial(int8.int8_product, weight=for_unsigned, axis=axis)))(shape)
    np.testing.assert_allclose(exported.call(x[0]), expected[0], rtol=1e-6)


@pytest.mark.parametrize('shape', [(512, 400), (400, 512), (256, 512), (512, 600), (511, 401)])
def test_blocks_give_the_same_product(shape):
    """Split by rows, by columns; the others are small enough, too large, or cannot be divided."""
    weight = raised(quantize(random(*shape, seed=1), 0), 0)
    tree = {'dense': {'kernel': weight, 'bias': random(shape[1])}}

    @jax.jit
    def in_blocks(tree, x):
        kernel = int8.for_few_rows(tree)['dense']['kernel']
        assert kernel.shape == shape
        assert isinstance(kernel, int8.InBlocks) == (400 in shape)
        return int8.int8_product(x, kernel)

    for rows in (1, 3):
        x = random(rows, shape[0])
        np.testing.assert_array_equal(in_blocks(tree, x), int8_product(x, weight))


def test_a_search_of_few_rows_reads_blocks_and_finds_the_same(monkeypatch):
    fields = {'d_model': 64, 'd_ff': 128, 'num_heads': 1, 'num_encoder_layers': 1, 'num_decoder_layers': 1}
    model = Transformer(TransformerConfig(vocab_size=40, **fields))
    weights = for_decoding(drawn(parameter_shapes(model.config)), 'uint8')
    decoding = DecodingConfig(beam_width=4, max_tokens=4)
    search = partial(translate_ids, models=[model], special_ids=SpecialIds(0, 1), decoding=decoding)
    source = np.random.default_rng(0).integers(3, 40, (2, 6))
    expected = jax.jit(search)(for_signed_inputs(weights), source[:1])

    split = []
    in_blocks = int8._in_blocks
    monkeypatch.setattr(int8, '_BLOCK', 64 * 64)
    monkeypatch.setattr(int8, '_MOST_IN_BLOCKS', 2 * 64 * 64)
    monkeypatch.setattr(int8, '_in_blocks', lambda weight: split.append(in_blocks(weight)) or split[-1])
    found = jax.jit(search)(weights, source[:1])
    assert {weight.shape for weight in split if isinstance(weight, int8.InBlocks)} == {(64, 128), (128, 64)}
    jax.tree.map(np.testing.assert_array_equal, found, expected)

    split.clear()
    jax.eval_shape(search, weights, source)  # eight rows
    assert not split


def test_layers_take_either_kind_of_weight():
    x, layer = random(3, 6), Dense(6, 4)
    params = {'kernel': random(6, 4, seed=1), 'bias': random(4)}
    small = to_int8(params)
    assert small['kernel'].values.dtype == jnp.int8
    assert small['bias'] is params['bias']
    np.testing.assert_allclose(layer.apply({'params': small}, x), x @ params['kernel'] + params['bias'], atol=0.1)
    table = Embedding(9, 6, pad_id=0)
    params = drawn(jax.eval_shape(table.init, jax.random.key(0), np.array([1]))['params'])
    small = to_int8(params)
    ids = np.array([[0, 3, 8]])
    for method, given in (('__call__', ids), ('logits', x)):
        apply = jax.jit(partial(table.apply, method=method))
        found, expected = (apply({'params': of}, given) for of in (small, params))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=0.05)


def test_every_matrix_of_a_model_is_quantized_and_the_logits_stay_near():
    config = TransformerConfig(
        vocab_size=40, d_model=32, d_ff=64, num_heads=4, num_encoder_layers=1, num_decoder_layers=1,
        tie_embeddings='target', attention_bias=True, positions='learned', max_length=8,
    )  # fmt: skip
    model, ids = Transformer(config), jnp.array([[5, 9, 3, 1]])
    params = drawn(parameter_shapes(config))
    small = to_int8(params)
    left = [
        jax.tree_util.keystr(path)
        for path, leaf in jax.tree_util.tree_leaves_with_path(small)
        if leaf.ndim == 2 and leaf.dtype != jnp.int8
    ]
    assert all('positions' in path for path in left)
    assert len(left) == 2
    bytes_of = lambda tree: sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
    assert bytes_of(small) < 0.4 * bytes_of(params)
    found, expected = (jax.jit(model.apply)({'params': of}, ids, ids) for of in (small, params))
    assert 0 < float(jnp.abs(found - expected).max()) < 0.1 * float(expected.std())


@pytest.mark.slow
def test_translations_in_int8(copy_run: Path):
    """The field does it, for the search and for scores; the parameters themselves stay."""
    lines = ['a b c', 'h g', 'c d e f g a b']
    whole, small = (Translator.from_run(copy_run, weights=weights, beam_width=1) for weights in ('float32', 'int8'))
    dtypes = {leaf.dtype for leaf in jax.tree.leaves(for_signed_inputs(small.weights))}
    assert dtypes == {jnp.dtype('int8'), jnp.dtype('float32')}
    found, expected = small(lines), whole(lines)
    assert [t.text for t in found] == [t.text for t in expected] == lines
    assert [t.score for t in found] != [t.score for t in expected]
    np.testing.assert_allclose([t.score for t in found], [t.score for t in expected], atol=0.05)
    scored = small.score(lines, lines)
    np.testing.assert_allclose([t.log_prob for t in scored], [t.log_prob for t in found], atol=0.1)
    again = small.with_decoding(replace(small.decoding, weights='float32'))
    assert {leaf.dtype for leaf in jax.tree.leaves(again.weights)} == {jnp.dtype('float32')}
    zeros = small.with_params(jax.tree.map(jnp.zeros_like, small.params))
    assert not any(leaf.any() for leaf in jax.tree.leaves(zeros.weights) if leaf.dtype == jnp.int8)


def test_faults_of_a_search_are_not_told_in_int8(copy_run: Path):
    with pytest.raises(UserError, match="weights='int8': expected 'float32'"):
        analyze(Translator.from_run(copy_run, weights='int8'), Pairs(['a'], ['a']))


def test_rounding_in_training_is_that_of_decoding_and_gradients_go_straight_through():
    config = TransformerConfig(
        vocab_size=30, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1
    )
    params = drawn(parameter_shapes(config))
    expected = int8.from_int8(to_int8(params))
    rounded, back = jax.vjp(jax.jit(partial(int8.rounded_where, True)), params)
    jax.tree.map(np.testing.assert_array_equal, rounded, expected)
    jax.tree.map(np.testing.assert_array_equal, back(params)[0], params)
    jax.tree.map(np.testing.assert_array_equal, int8.rounded_where(False, params), params)

"""The parameters as the search takes them: rounded once, not at every token."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TESTS
from traced import equations

from flax_transformer import Translator
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.ops.decoding_weights import Transposed
from flax_transformer.ops.int8 import for_signed_inputs, has_int8, to_int8
from flax_transformer.tasks.translation.evaluation import analyze
from flax_transformer.tasks.translation.inference import programs
from flax_transformer.tasks.translation.loading import LoadedRun, load_run
from flax_transformer.transformer.model import Transformer


@pytest.fixture(scope='module')
def run() -> LoadedRun:
    return load_run(TESTS / 'golden' / 'number_words')


def translator_of(run: LoadedRun, dtype: str) -> Translator:
    decoding = replace(run.config.decoding, max_tokens=4)
    return Translator(replace(run.config.model, dtype=dtype), run.params, run.tokenizer, decoding)


@pytest.mark.slow
def test_no_matrix_is_rounded_within_the_search(run: LoadedRun) -> None:
    translator, source = translator_of(run, 'bfloat16'), jnp.array([[5, 9, 0]])
    shapes = {leaf.shape for leaf in jax.tree.leaves(run.params) if leaf.ndim > 1}
    for weights, is_rounded in ((translator.weights, False), (run.params, True)):
        loops = equations(jax.make_jaxpr(translator.translate_ids)(weights, source).jaxpr)
        inside = [x for loop in loops if loop.primitive.name == 'while' for x in equations(loop.params['body_jaxpr'])]
        casts = [x.invars[0].aval for x in inside if x.primitive.name == 'convert_element_type']
        assert any(x.shape in shapes and x.dtype == 'float32' for x in casts) == is_rounded
    found, expected = (translator.translate_ids(weights, source) for weights in (translator.weights, run.params))
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def loaded(run: LoadedRun, dtype: str) -> Translator:
    """A translator that alone holds its parameters."""
    own = run._replace(params=jax.tree.map(jnp.array, run.params))
    return translator_of(own, dtype)._loaded(lambda: run.params)


def test_float32_is_let_go_and_read_again_if_a_loaded_run_is_rounded(run: LoadedRun) -> None:
    rounded = loaded(run, 'bfloat16')
    assert rounded._params is None
    assert rounded.with_decoding(replace(rounded.decoding, beam_width=2)).weights is rounded.weights
    assert {type(leaf) for leaf in jax.tree.leaves(rounded.weights)} == {type(jnp.zeros(1))}
    half = {leaf.dtype.name for leaf in jax.tree.leaves(rounded.weights) if leaf.ndim > 1}
    assert half == {'bfloat16'}
    narrow = rounded.with_decoding(replace(rounded.decoding, beam_width=1))
    assert narrow.params is run.params
    small = rounded.with_decoding(replace(rounded.decoding, weights='int8'))  # made from float32
    jax.tree.map(np.testing.assert_array_equal, for_signed_inputs(small.weights), to_int8(run.params))


def test_on_cpus_float32_is_kept_once_transposed_and_given_back_as_it_was(run: LoadedRun) -> None:
    whole = loaded(run, 'float32')
    assert whole._params is None
    count = lambda tree: sum(leaf.size for leaf in jax.tree.leaves(tree))
    assert count(whole.weights) == count(run.params)
    assert sum(type(x) is Transposed for x in jax.tree.leaves(whole.weights, is_leaf=lambda x: type(x) is Transposed))
    jax.tree.map(np.testing.assert_array_equal, whole.params, run.params)
    found, expected = (whole.translate_ids(weights, jnp.array([[5, 9, 0]])) for weights in (whole.weights, run.params))
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


@pytest.mark.parametrize(
    ('fastest', 'is_measured', 'dtype'),
    [('uint8', True, 'int8'), ('int8', True, 'float32'), ('uint8', False, 'float32')],
)
def test_auto_is_int8_where_that_is_faster_and_no_batch_matters(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch, fastest: str, is_measured: bool, dtype: str
) -> None:
    monkeypatch.setattr(programs, 'fastest_int8', lambda: fastest)
    monkeypatch.setattr(programs, 'is_measured', lambda: is_measured)
    monkeypatch.setattr(Transformer, 'supports_batch_invariance', True)
    decoding = replace(run.config.decoding, weights='auto')
    translator = Translator(run.config.model, run.params, run.tokenizer, decoding)
    assert translator.programs.uses_int8 == has_int8(translator.weights) == (dtype == 'int8')
    assert {leaf.dtype.name for leaf in jax.tree.leaves(translator.weights) if leaf.ndim > 1} == {dtype}


def test_faults_are_looked_for_in_float32_where_auto_is_int8(run: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, 'fastest_int8', lambda: 'uint8')
    monkeypatch.setattr(programs, 'is_measured', lambda: True)
    monkeypatch.setattr(Transformer, 'supports_batch_invariance', True)
    decoding = replace(run.config.decoding, weights='auto', max_tokens=4, beam_width=1)
    translator = Translator(run.config.model, run.params, run.tokenizer, decoding)
    seen = []
    monkeypatch.setattr(Translator, 'score', lambda self, *texts: seen.append(has_int8(self.weights)) or [])
    assert analyze(translator, Pairs([], []), ()) == []
    assert seen == [False]

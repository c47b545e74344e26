"""Cross-entropy, and its sums in chunks. `PEERS n` is point n of PEERS.md, section 5."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from flax_transformer.config import TransformerConfig
from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine import losses
from flax_transformer.engine.step import automatic_chunk, loss_sums
from flax_transformer.transformer.model import Transformer, output_names

B, T, V = 4, 6, 11
LOGITS = (3 * np.random.default_rng(0).normal(size=(B, T, V))).astype(np.float32)
TARGETS = np.random.default_rng(1).integers(0, V, (B, T))
WEIGHTS = (np.random.default_rng(2).random((B, T)) < 0.7).astype(np.float32)


@partial(jax.jit, static_argnames='label_smoothing')
def cross_entropy(logits, targets, weights, label_smoothing=0.0):
    """The sum over tokens, and the count."""
    smoothed, _ = losses.cross_entropy(logits, targets, label_smoothing=label_smoothing)
    return (smoothed * weights).sum(), weights.astype(jnp.float32).sum()


SUM = {'rtol': 1e-5}  # float32 sums of some 20 losses of size 5


def target_distribution(targets, label_smoothing):
    """PEERS 6: 1 - eps on the gold token and eps / (V - 1) on each other one, written out."""
    q = np.full((*targets.shape, V), label_smoothing / (V - 1))
    np.put_along_axis(q, targets[..., None], 1 - label_smoothing, axis=-1)
    return q


@pytest.mark.parametrize('label_smoothing', [0.0, 0.1, 0.6])
def test_cross_entropy_equals_the_closed_form_and_optax(label_smoothing):
    q = target_distribution(TARGETS, label_smoothing)
    np.testing.assert_allclose(q.sum(-1), 1.0)
    z = LOGITS.astype(np.float64)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    total, count = cross_entropy(LOGITS, TARGETS, WEIGHTS, label_smoothing=label_smoothing)
    np.testing.assert_allclose(total, (-(q * log_p).sum(-1) * WEIGHTS).sum(), **SUM)
    assert count == WEIGHTS.sum()
    per_token = optax.softmax_cross_entropy(LOGITS, jnp.asarray(q, jnp.float32))
    np.testing.assert_allclose(total, (per_token * WEIGHTS).sum(), **SUM)


def test_gradient_is_softmax_minus_the_target_distribution():
    """PEERS 6: the optimum is 1 - eps on the gold token, not 1 - eps + eps / V."""
    loss = lambda logits: cross_entropy(logits, TARGETS, WEIGHTS, label_smoothing=0.1)[0]
    softmax = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    expected = (softmax - target_distribution(TARGETS, 0.1)) * WEIGHTS[..., None]
    np.testing.assert_allclose(jax.grad(loss)(LOGITS), expected, atol=1e-6)  # float32 probabilities


def test_weightless_tokens_count_for_nothing_and_fractions_in_proportion():
    """PEERS 7: padding is neither in the sum nor in the count."""
    changed = np.where(WEIGHTS[..., None] == 0, 1e4, LOGITS)
    got, expected = cross_entropy(changed, TARGETS, WEIGHTS), cross_entropy(LOGITS, TARGETS, WEIGHTS)
    np.testing.assert_array_equal(got, expected)
    halves = cross_entropy(LOGITS, TARGETS, 0.5 * WEIGHTS)
    np.testing.assert_allclose(halves, 0.5 * np.array(expected), **SUM)


def test_sums_and_counts_of_any_split_add_up_to_the_whole():
    """PEERS 7: so the loss over devices is one division by the global count."""
    whole = np.array(cross_entropy(LOGITS, TARGETS, WEIGHTS, label_smoothing=0.1))
    for cut in ((slice(0, 2), slice(2, 4)), (slice(0, None, 2), slice(1, None, 2))):
        parts = [cross_entropy(LOGITS[rows], TARGETS[rows], WEIGHTS[rows], label_smoothing=0.1) for rows in cut]
        np.testing.assert_allclose(np.array(parts).sum(0), whole, **SUM)


def test_bfloat16_logits_are_summed_in_float32():
    """PEERS 7: the loss is that of the rounded logits, exactly; and boolean weights will do."""
    rounded = jnp.asarray(LOGITS, jnp.bfloat16)
    total, count = cross_entropy(rounded, TARGETS, WEIGHTS.astype(bool), label_smoothing=0.1)
    assert total.dtype == count.dtype == jnp.float32
    expected = cross_entropy(rounded.astype(jnp.float32), TARGETS, WEIGHTS, label_smoothing=0.1)
    np.testing.assert_array_equal((total, count), expected)


def test_huge_logits_do_not_overflow():
    total, _ = cross_entropy(1e4 * LOGITS, TARGETS, WEIGHTS, label_smoothing=0.1)
    assert jnp.isfinite(total)


def test_perplexity_without_smoothing_is_that_of_the_model():
    """PEERS 6: the perplexity to report is exp(sum / count) at the default, label_smoothing 0."""
    total, count = cross_entropy(jnp.zeros((B, T, V)), TARGETS, WEIGHTS)
    np.testing.assert_allclose(jnp.exp(total / count), V, rtol=1e-5)
    # A model that gives every target probability 1/4 has perplexity 4, whatever it does with the rest.
    p = np.full((B, T, V), 0.75 / (V - 1))
    np.put_along_axis(p, TARGETS[..., None], 0.25, axis=-1)
    total, count = cross_entropy(np.log(p), TARGETS, WEIGHTS)
    np.testing.assert_allclose(jnp.exp(total / count), 4.0, rtol=1e-5)
    smoothed, _ = cross_entropy(np.log(p), TARGETS, WEIGHTS, label_smoothing=0.1)
    assert smoothed > total + 1


def test_one_pass_gives_the_smoothed_loss_and_the_other():
    smoothed, nll = losses.cross_entropy(jnp.asarray(LOGITS), TARGETS, label_smoothing=0.1)
    for got, label_smoothing in ((smoothed, 0.1), (nll, 0.0)):
        expected = optax.softmax_cross_entropy(
            LOGITS, jnp.asarray(target_distribution(TARGETS, label_smoothing), jnp.float32)
        )
        np.testing.assert_allclose(got, expected, rtol=1e-5)


MODEL = TransformerConfig(
    vocab_size=13, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0
)
MODELS = {
    'tied': MODEL,
    'untied, with a bias': replace(MODEL, tie_embeddings='none', logits_bias=True, target_vocab_size=11),
    'as Marian': replace(MODEL, tie_embeddings='target', logits_bias=True, pad_row='neither'),
    'bfloat16': replace(MODEL, dtype='bfloat16'),
}


def a_batch(rows=4, length=10, vocab_size=11):
    """Rows of one sentence each, of different lengths, of three corpora."""
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, length + 1, (rows, 1))
    real = (np.arange(length) < lengths).astype(np.int32)
    ids = rng.integers(2, vocab_size, (rows, length), dtype=np.int32) * real
    places = np.arange(length, dtype=np.int32)[None] * real
    return Batch(ids, ids, real, real, places, places, np.arange(rows * length, dtype=np.int32).reshape(rows, -1) % 3)


@pytest.mark.parametrize(
    'name',
    [
        'tied',
        'untied, with a bias',
        *(pytest.param(name, marks=pytest.mark.slow) for name in ('as Marian', 'bfloat16')),
    ],
)
def test_in_chunks_losses_and_gradients_are_those_of_the_whole(name):
    """Of 10 positions, by 4, so that the last chunk is filled up; one model by all 10 and by 1 too."""
    model, batch = Transformer(MODELS[name]), a_batch()
    params = jax.jit(model.init)(jax.random.key(0), batch.source, batch.target)['params']
    compute = lambda chunk: jax.device_get(
        jax.jit(
            jax.value_and_grad(
                partial(loss_sums, model=model, label_smoothing=0.1, corpora=('a', 'b', 'c'), loss_chunk=chunk),
                has_aux=True,
            ),
        )(params, batch, None)
    )

    def whole(params):
        """Without chunks and their gradients: the reference."""
        target_in = np.roll(batch.target, 1, axis=1) * (np.arange(10) > 0)
        apply = partial(model.apply, {'params': params}, batch.source, target_in)
        logits = apply(
            source_segments=batch.source_segments,
            target_segments=batch.target_segments,
            source_positions=batch.source_positions,
            target_positions=batch.target_positions,
        )
        smoothed, nll = losses.cross_entropy(logits, batch.target, label_smoothing=0.1)
        real = batch.target_segments
        return (smoothed * real).sum(), [(nll * real * (batch.corpora == number)).sum() for number in range(3)]

    (loss, nll), gradients = jax.jit(jax.value_and_grad(whole, has_aux=True))(params)
    # bfloat16 rounds a gradient of the table in each chunk, not once; float32 sums are in another order.
    close = {'rtol': 0.02, 'atol': 0.05} if name == 'bfloat16' else {'rtol': 1e-4, 'atol': 2e-6}
    for chunk in (16, 40, 1) if name == 'tied' else (16,):
        (total, sums), got = compute(chunk)
        np.testing.assert_allclose(total, loss, rtol=1e-6)
        np.testing.assert_allclose([sums[f'nll/{each}'] for each in 'abc'], nll, rtol=1e-5)
        assert sums['nll'] == pytest.approx(sum(map(float, nll)), rel=1e-5)
        assert sums['target_tokens'] == batch.target_segments.sum()
        jax.tree.map(partial(np.testing.assert_allclose, **close), got, gradients)
        assert {leaf.dtype for leaf in jax.tree.leaves(got)} == {np.dtype('float32')}
    evaluate = jax.jit(partial(loss_sums, model=model, label_smoothing=0.1, loss_chunk=16))
    assert float(evaluate(params, batch, None)[0]) == pytest.approx(float(loss), rel=1e-6)  # without gradients


def test_a_loss_may_be_scaled_before_it_is_differentiated():
    model, batch = Transformer(MODEL), a_batch()
    params = jax.jit(model.init)(jax.random.key(0), batch.source, batch.target)['params']
    loss = lambda params: loss_sums(params, batch, None, model=model, label_smoothing=0.1, loss_chunk=20)[0]
    once, thrice = jax.jit(lambda params: (jax.grad(loss)(params), jax.grad(lambda p: 3 * loss(p))(params)))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(3 * a, b, rtol=1e-5, atol=1e-6), once, thrice)


def test_the_projection_reads_what_its_names_say():
    for config in MODELS.values():
        model, tokens = Transformer(config), jnp.zeros((1, 1), jnp.int32)
        params = jax.jit(model.init)(jax.random.key(0), tokens, tokens)['params']
        some = {name: params[name] for name in output_names(config)}
        logits = model.apply({'params': some}, jnp.ones((2, 3, config.d_model)), method='project')
        assert logits.shape == (2, 3, config.vocab_size_of_target)
        assert logits.dtype == jnp.float32


def test_chunked_logits_are_never_whole_in_memory():
    """The temporary memory of loss and gradients, as XLA plans it; here logits outweigh the rest."""
    config = replace(MODEL, vocab_size=4000)
    model, batch = Transformer(config), a_batch(8, 64)
    params = jax.eval_shape(model.init, jax.random.key(0), batch.source, batch.target)['params']

    def temporary(chunk):
        loss = partial(loss_sums, model=model, label_smoothing=0.1, loss_chunk=chunk)
        compiled = jax.jit(jax.grad(loss, has_aux=True)).lower(params, batch, None).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    whole = temporary(512)
    assert whole > 512 * 4000 * 4
    assert temporary(32) < whole / 4


def test_chunks_hold_a_thousand_tokens_or_32_megabytes():
    assert automatic_chunk(replace(MODEL, vocab_size=32_000)) == 1024
    assert automatic_chunk(replace(MODEL, vocab_size=1024)) * 1024 * 4 == 2**25

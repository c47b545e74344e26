"""Cross-entropy by token. Points are those of docs/explanation/paper_and_code.md."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from flax_transformer.engine import losses

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
    """Point 6: 1 - eps on the gold token and eps / (V - 1) on each other one, written out."""
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
    per_token = jax.jit(optax.softmax_cross_entropy)(LOGITS, q.astype(np.float32))
    np.testing.assert_allclose(total, (per_token * WEIGHTS).sum(), **SUM)


def test_gradient_is_softmax_minus_the_target_distribution():
    """Point 6: the optimum is 1 - eps on the gold token, not 1 - eps + eps / V."""
    loss = lambda logits: cross_entropy(logits, TARGETS, WEIGHTS, label_smoothing=0.1)[0]
    softmax = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    expected = (softmax - target_distribution(TARGETS, 0.1)) * WEIGHTS[..., None]
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(LOGITS), expected, atol=1e-6)  # float32 probabilities


def test_bfloat16_logits_are_summed_in_float32():
    """Point 7: the loss is that of the rounded logits, exactly."""
    rounded = LOGITS.astype(jnp.bfloat16)
    total, count = cross_entropy(rounded, TARGETS, WEIGHTS, label_smoothing=0.1)
    assert total.dtype == count.dtype == jnp.float32
    expected = cross_entropy(rounded.astype(np.float32), TARGETS, WEIGHTS, label_smoothing=0.1)
    np.testing.assert_array_equal((total, count), expected)


def test_a_loss_in_chunks_may_be_scaled_before_it_is_differentiated():
    targets = jnp.asarray(TARGETS)

    def loss(table, hidden):
        def sums_of(table, hidden, targets):
            smoothed, nll = losses.cross_entropy(hidden @ table, targets, label_smoothing=0.1)
            return smoothed.sum(), {'nll': nll.sum()}

        return losses.sums_in_chunks(sums_of, table, hidden, targets, width=2)[0]

    inputs = jnp.asarray(np.random.default_rng(3).normal(size=(5, V)), jnp.float32), jnp.asarray(LOGITS[..., :5])
    gradients = jax.jit(lambda *inputs: jax.grad(loss, argnums=(0, 1))(*inputs))(*inputs)
    scaled = jax.jit(jax.grad(lambda *inputs: 3 * loss(*inputs), argnums=(0, 1)))(*inputs)
    assert all((np.asarray(each) != 0).any() for each in gradients)
    close = lambda a, b: np.testing.assert_allclose(3 * np.asarray(a), b, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, gradients, scaled)


def test_gpus_read_logits_once_for_the_same_loss_and_gradients():
    """In one reduction, also where later logits are the largest, or -inf."""
    logits = LOGITS * np.array([1, 50, 1, 1000, 1, 1], np.float32)[:, None]
    logits[:, 2, ::2] = -np.inf
    targets = TARGETS.copy()
    targets[:, 2] = 1
    log_p = np.asarray(jax.nn.log_softmax(logits.astype(np.float64)))
    values, pull = jax.vjp(lambda z: losses.statistics_in_one_read(z, targets), logits)
    normalizer, own, total = map(np.asarray, values)
    expected = np.take_along_axis(log_p, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(own - normalizer, expected, rtol=1e-5, atol=1e-3)  # of logits near 1,000
    finite = np.isfinite(total)
    np.testing.assert_allclose(total[finite], logits.sum(-1)[finite], rtol=1e-4, atol=1e-3)
    is_target = targets[..., None] == np.arange(V)
    cotangents = (np.full((B, T), x, np.float32) for x in (2.0, -1.5, -0.25))
    np.testing.assert_allclose(pull(tuple(cotangents))[0], 2 * np.exp(log_p) - 1.5 * is_target - 0.25, atol=2e-3)

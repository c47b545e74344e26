"""Samples come as often as they should, and do not depend on their company.

The tests of distributions fail by chance once in 10^6 runs of a right program with fresh seeds; the seeds are fixed.
"""

import functools
import math
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding_toys import EOS, PAD, Toys, every_prefix, make_toys, model_of, problem_of, toy_state, toy_step

from flax_transformer.decoding import transforms
from flax_transformer.decoding.greedy_and_sampling import sample_search, sentence_keys
from flax_transformer.decoding.problem import Hypotheses

BATCH, SAMPLES = 4, 8192  # the same in every test, so that they share compilations
ERROR = 1e-6


@functools.partial(jax.jit, static_argnames=('chain',))
def draw(toys: Toys, *, chain=(), seed: int = 0) -> Hypotheses:
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.asarray(toys.seed))
    return sample_search(toy_step, toy_state(toys), problem_of(toys, transforms=chain), keys=keys, samples=SAMPLES)


def chi_square_limit(freedom: int) -> float:
    """What chi-square exceeds with probability ERROR (Wilson and Hilferty 1931)."""
    z = 4.7534  # the quantile of ERROR
    return freedom * (1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))) ** 3


def assert_distributed(counts: dict, probabilities: dict, total: int) -> None:
    """Pearson's test; outcomes expected fewer than five times are taken together."""
    assert not set(counts) - set(probabilities), 'something impossible was drawn'
    common = {key: p for key, p in probabilities.items() if p * total >= 5}
    rest = 1 - sum(common.values())
    statistic = sum((counts.get(key, 0) - p * total) ** 2 / (p * total) for key, p in common.items())
    rare = total - sum(counts.get(key, 0) for key in common)
    if rest * total >= 5:
        statistic += (rare - rest * total) ** 2 / (rest * total)
    assert statistic < chi_square_limit(max(len(common), 1)), (statistic, len(common))


CHAINS = {
    'plain': ((), lambda p: p),
    'top_k': ((transforms.top_k(2),), lambda p: [x if x >= sorted(p)[-2] else 0 for x in p]),
    'temperature, then min_p': (
        (transforms.temperature(2.0), transforms.min_p(0.5)),
        lambda p: [x**0.5 if x**0.5 >= 0.5 * max(p) ** 0.5 else 0 for x in p],
    ),
}


@pytest.mark.parametrize('name', CHAINS)
@pytest.mark.slow_cases('plain', 'top_k')
def test_hypotheses_come_as_often_as_they_are_probable(name):
    chain, shape = CHAINS[name]
    toys = make_toys(41, BATCH)._replace(max_lengths=np.array([1, 2, 3, 3], np.int32))
    result = jax.device_get(draw(toys, chain=chain))

    def shaped(model):
        def log_probs(prefix):
            weights = shape([math.exp(x) for x in model(prefix)])
            return [math.log(w / sum(weights)) if w else -math.inf for w in weights]

        return log_probs

    for sentence, max_length in enumerate(toys.max_lengths.tolist()):
        expected = {
            tokens: math.exp(total)
            for tokens, total in every_prefix(shaped(model_of(toys, sentence)), max_length)
            if (tokens[-1] == EOS or len(tokens) == max_length) and total > -math.inf
        }
        assert sum(expected.values()) == pytest.approx(1.0)
        counts = Counter(
            tuple(tokens[:length].tolist())
            for tokens, length in zip(result.tokens[sentence], result.lengths[sentence], strict=True)
        )
        assert_distributed(counts, expected, SAMPLES)


def test_log_probs_are_the_models_own_and_samples_are_sorted():
    toys = make_toys(42, BATCH)
    result = jax.device_get(draw(toys, chain=CHAINS['temperature, then min_p'][0]))
    for sentence in range(BATCH):
        model = model_of(toys, sentence)
        for w in range(0, SAMPLES, 64):
            tokens = tuple(result.tokens[sentence, w][: result.lengths[sentence, w]].tolist())
            expected = [model(tokens[:i])[token] for i, token in enumerate(tokens)]
            np.testing.assert_allclose(result.token_log_probs[sentence, w][: len(tokens)], expected, atol=3e-5)
        finished = result.is_finished[sentence]
        assert (np.diff(finished.astype(int)) <= 0).all()
        for group in (finished, ~finished):
            assert (np.diff(result.scores[sentence][group]) <= 0).all()


def test_samples_depend_on_their_sentence_alone():
    toys = make_toys(43, BATCH)
    one = draw(toys)
    other = draw(Toys(*(np.roll(x, 1, axis=0) for x in toys)))
    for name, x, y in zip(Hypotheses._fields, one, other, strict=True):
        np.testing.assert_array_equal(x, np.roll(y, -1, axis=0), err_msg=name)
    assert (np.asarray(one.tokens) != np.asarray(draw(toys, seed=1).tokens)).any()


def test_keys_depend_on_ids_and_seed_and_on_nothing_else():
    rows = np.array([[5, 6, 1, 0], [6, 5, 1, 0], [5, 6, 7, 1], [5, 1, 0, 0]])
    data = jax.jit(lambda seed, source: jax.random.key_data(sentence_keys(seed, source, PAD)))
    keys = data(0, rows)
    assert len({tuple(key.tolist()) for key in np.asarray(keys)}) == 4
    np.testing.assert_array_equal(data(0, np.pad(rows, ((0, 0), (0, 9)))), keys)
    np.testing.assert_array_equal(data(0, rows[2:]), keys[2:])
    assert (np.asarray(data(1, rows)) != np.asarray(keys)).any(axis=1).all()

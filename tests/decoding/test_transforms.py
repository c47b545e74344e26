"""Each transform alone against a loop in plain Python, on random histories; then all together within searches."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding_toys import (
    BATCH,
    EOS,
    PAD,
    Toys,
    check,
    make_toys,
    problem_of,
    reference_beam,
    reference_greedy,
    toy_state,
    toy_step,
)

from flax_transformer.decoding import transforms
from flax_transformer.decoding.beam_search import beam_search
from flax_transformer.decoding.problem import NEG_INF, History, Hypotheses
from flax_transformer.decoding.scorers import length_normalized

ROWS, SLOTS, V = 12, 7, 5
MINUS = -1e9

# A transform of one hypothesis: (log-probabilities, tokens so far, the model's log-probabilities, row) -> the same.
Reference = Callable[[list[float], list[int], list[float], int], list[float]]


def histories(seed: int) -> list[tuple[np.ndarray, History]]:
    """Random ones at every position, few tokens so that they repeat."""
    rng = np.random.default_rng(seed)
    out = []
    for position in range(SLOTS):
        tokens = rng.integers(0, 3, (ROWS, SLOTS)).astype(np.int32)
        logits = rng.normal(size=(ROWS, V)) * 2
        log_probs = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)
        out.append((log_probs, History(tokens, np.int32(position), log_probs)))
    return out


def assert_equals(transform: Callable, reference: Reference, *, seed: int = 0, atol: float = 0.0) -> None:
    changed = 0
    compiled = jax.jit(transform)
    for log_probs, history in histories(seed):
        got = np.asarray(compiled(log_probs, history))
        tokens = history.tokens[:, : history.position].tolist()
        expected = [reference(row, tokens[i], row, i) for i, row in enumerate(log_probs.tolist())]
        np.testing.assert_allclose(np.maximum(got, MINUS), expected, rtol=0, atol=atol)
        changed += int((got != log_probs).sum())
    assert changed, 'the transform changed nothing: this tests nothing'


def banning(is_banned: Callable[[int, list[int]], bool]) -> Reference:
    return lambda log_probs, tokens, _, __: [MINUS if is_banned(i, tokens) else x for i, x in enumerate(log_probs)]


def test_ban():
    assert_equals(transforms.ban((1, 4)), banning(lambda i, _: i in (1, 4)))


LONG = (2,) * (SLOTS + 1)  # than any hypothesis


@pytest.mark.parametrize('sequences', [[(2,)], [(0, 1)], [(1, 1, 2), (2, 0), (3,)], [(2, 3), LONG, LONG * 9]])
def test_ban_sequences(sequences):
    def completes(i, tokens):
        return any([*tokens, i][-len(s) :] == list(s) for s in sequences)

    assert_equals(transforms.ban_sequences(sequences), banning(completes))


@pytest.mark.parametrize('tokens', [2, SLOTS])
def test_min_length(tokens):
    assert_equals(transforms.min_length(tokens, EOS), banning(lambda i, so_far: i == EOS and len(so_far) + 1 < tokens))


# Long n-grams of three ids rarely occur twice at random: the seed is one with which the last does.
@pytest.mark.parametrize(('n', 'seed'), [(1, 0), (2, 0), (SLOTS - 1, 18)])
def test_no_repeat_ngrams(n, seed):
    def repeats(i, tokens):
        grams = [tuple(tokens[j : j + n]) for j in range(len(tokens) - n + 1)]
        return tuple([*tokens, i][-n:]) in grams and len(tokens) + 1 >= n

    assert_equals(transforms.no_repeat_ngrams(n), banning(repeats), seed=seed)


def test_force_eos_costs_nothing_and_is_for_the_last_token_alone():
    max_lengths = np.arange(ROWS // 2) % SLOTS + 1

    def force(log_probs, tokens, _, row):
        if len(tokens) + 1 != max_lengths[row // 2]:
            return log_probs
        return [0.0 if i == EOS else MINUS for i in range(V)]

    assert_equals(transforms.force_eos(jnp.asarray(max_lengths), EOS), force)


def test_a_forced_prefix_overrules_bans():
    prefix = np.array([[2, 3, 4], [1, PAD, PAD], [PAD, PAD, PAD]])

    def force(log_probs, tokens, of_model, row):
        wanted = [i for i in prefix[row // (ROWS // 3)].tolist() if i != PAD]
        if len(tokens) >= len(wanted):
            return [MINUS if i == 2 else x for i, x in enumerate(log_probs)]
        return [of_model[i] if i == wanted[len(tokens)] else MINUS for i in range(V)]

    forced = transforms.forced_prefix(jnp.asarray(prefix), PAD)
    assert_equals(lambda x, history: forced(transforms.ban((2,))(x, history), history), force)


def normalized(values: list[float]) -> list[float]:
    total = math.log(sum(math.exp(x) for x in values))
    return [x - total for x in values]


def test_temperature():
    reference = lambda log_probs, *_: normalized([x / 0.5 for x in log_probs])
    assert_equals(transforms.temperature(0.5), reference, atol=1e-5)


def keeping(log_probs: list[float], kept: set[int]) -> list[float]:
    return [x if i in kept else MINUS for i, x in enumerate(log_probs)]


@pytest.mark.parametrize('k', [1, 4])
def test_top_k(k):
    best = lambda log_probs: set(sorted(range(V), key=lambda i: -log_probs[i])[:k])
    assert_equals(transforms.top_k(k), lambda log_probs, *_: keeping(log_probs, best(log_probs)))


def test_of_equals_top_k_keeps_the_lower_ids():
    kept = jax.jit(lambda x: transforms.top_k(2)(x, None))(np.zeros((1, 4), np.float32))
    np.testing.assert_array_equal(np.asarray(kept) > NEG_INF, [[True, True, False, False]])


@pytest.mark.parametrize('p', [0.1, 0.9])
def test_top_p(p):
    def nucleus(log_probs, *_):
        kept, total = set(), 0.0
        for i in sorted(range(V), key=lambda i: -log_probs[i]):
            if total >= p:
                break
            kept.add(i)
            total += math.exp(log_probs[i])
        return keeping(log_probs, kept)

    assert_equals(transforms.top_p(p), nucleus)


@pytest.mark.parametrize('p', [0.05, 0.5])
def test_min_p(p):
    def probable(log_probs, *_):
        return keeping(log_probs, {i for i in range(V) if math.exp(log_probs[i]) >= p * math.exp(max(log_probs))})

    assert_equals(transforms.min_p(p), probable)


RULES = (
    transforms.ban((PAD,)),
    transforms.no_repeat_ngrams(2),
    transforms.ban_sequences([(2, 3)]),
    transforms.min_length(3, EOS),
)


def is_barred(prefix: tuple[int, ...], token: int) -> bool:
    """The rules above, for one token behind a prefix."""
    tokens = (*prefix, token)
    grams = [tokens[i : i + 2] for i in range(len(tokens) - 1)]
    return token == PAD or len(set(grams)) < len(grams) or tokens[-2:] == (2, 3) or (token == EOS and len(tokens) < 3)


def ruled(model: Callable) -> Callable:
    return lambda prefix: [MINUS if is_barred(prefix, i) else x for i, x in enumerate(model(prefix))]


@functools.partial(jax.jit, static_argnames=('width',))
def search(toys: Toys, *, width: int) -> Hypotheses:
    problem = problem_of(toys, transforms=RULES, scorer=length_normalized('power', 1.0))
    return beam_search(toy_step, toy_state(toys), problem, width=width)


def without_dead_ends(reference: Callable) -> Callable:
    """A reference in which what is barred counts as absent."""

    def found(model: Callable, max_length: int) -> list:
        return [x for x in reference(model, max_length) if x.log_prob > MINUS / 2]

    return found


def long_enough(seed: int) -> Toys:
    """Toys that live longer than the rules demand."""
    toys = make_toys(seed, BATCH)
    return toys._replace(max_lengths=np.maximum(toys.max_lengths, 4))


@pytest.mark.parametrize('width', [1, 3])
@pytest.mark.slow_cases('3')
def test_narrow_searches_under_rules_equal_the_same_over_lists(width):
    toys = long_enough(21)

    def reference(model, n):
        if width == 1:
            return reference_greedy(ruled(model), n, 'power', 1.0)
        return reference_beam(ruled(model), n, width, 'power', 1.0)

    check(search(toys, width=width), toys, without_dead_ends(reference), least=0.7)

"""Random toy models to search, references in plain Python, and comparisons with them.

A toy is one sentence of a batch: its next-token logits depend on the whole prefix, through a cache that folds
the prefix, and on tables of its own. So a cache gathered from the wrong parent, or a table read from the wrong
sentence, changes what is found.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.trees import DecodeState
from flax_transformer.decoding.problem import Hypotheses, SearchProblem

PAD, EOS, VOCAB_SIZE, LENGTH = 0, 1, 4, 5
NUM_ROWS = 101  # of a toy's table; a prime, so that folded prefixes spread over it
BATCH = 150  # toys of most tests, so that they share compilations
WHOLE_SPACE = 40  # beams: more than the 2^5 live and 31 finished hypotheses there are without PAD
TOLERANCE = 3e-5  # sums of five float32 log-probabilities, down to -60, against float64: a few times 60 * 2^-24
NEAR = 2e-5  # candidates closer than this may be ranked either way in float32: such toys are left out
DEAD = -1e8  # log-probabilities below this belong to no hypothesis: fewer than W exist


class Toys(NamedTuple):
    table: np.ndarray  # [B, NUM_ROWS, V] logits by folded prefix
    mix: np.ndarray  # [B, V, V] logits by recent tokens
    seed: np.ndarray  # [B] the fold of the empty prefix
    start: np.ndarray  # [B]
    max_lengths: np.ndarray  # [B]


def make_toys(seed: int, batch: int) -> Toys:
    rng = np.random.default_rng(seed)
    sharpness = rng.uniform(0.5, 3, (batch, 1, 1))  # flat models end anywhere, sharp ones stop early
    return Toys(
        table=(sharpness * rng.normal(size=(batch, NUM_ROWS, VOCAB_SIZE))).astype(np.float32),
        mix=(0.4 * sharpness * rng.normal(size=(batch, VOCAB_SIZE, VOCAB_SIZE))).astype(np.float32),
        seed=rng.integers(0, NUM_ROWS, batch, np.int32),
        start=rng.integers(0, VOCAB_SIZE, batch, np.int32),
        max_lengths=rng.integers(1, LENGTH + 1, batch, np.int32),
    )


def toy_step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
    table, mix = state.shared['table'], state.shared['mix']
    sentence = jnp.arange(tokens.shape[0]) // (tokens.shape[0] // table.shape[0])
    fold = (state.cache['fold'] * 31 + tokens + 7 * state.position + 1) % NUM_ROWS
    trace = state.cache['trace'] / 2 + jax.nn.one_hot(tokens, VOCAB_SIZE)
    logits = table[sentence, fold] + jnp.einsum('NV,NVU->NU', trace, mix[sentence])
    return logits, DecodeState({'fold': fold, 'trace': trace}, state.shared, state.position + 1)


def toy_state(toys: Toys) -> DecodeState:
    cache = {'fold': jnp.asarray(toys.seed), 'trace': jnp.zeros((len(toys.seed), VOCAB_SIZE))}
    return DecodeState(cache, {'table': toys.table, 'mix': toys.mix}, jnp.int32(0))


def attending_step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, jax.Array, DecodeState]:
    """The toy, and an attention over three slots that depends on the prefix."""
    logits, after = toy_step(tokens, state)
    return logits, jax.nn.softmax(2 * after.cache['trace'][:, :3], axis=-1), after


def problem_of(toys: Toys, length: int = LENGTH, **pieces) -> SearchProblem:
    return SearchProblem(toys.start, toys.max_lengths, length, EOS, PAD, **pieces)


class Found(NamedTuple):
    """One hypothesis of a reference."""

    tokens: tuple[int, ...]
    score: float
    log_prob: float
    is_finished: bool


def reference_penalty(length: int, kind: str, alpha: float) -> float:
    return {'gnmt': ((5 + length) / 6) ** alpha, 'power': length**alpha, 'none': 1.0}[kind]


def model_of(toys: Toys, sentence: int) -> Callable[[tuple[int, ...]], list[float]]:
    """The toy as a function from a prefix to the log-probabilities of the next token."""
    table, mix = toys.table[sentence].tolist(), toys.mix[sentence].tolist()
    seed, start = int(toys.seed[sentence]), int(toys.start[sentence])

    @functools.cache
    def log_probs(prefix: tuple[int, ...]) -> list[float]:
        fold, trace = seed, [0.0] * VOCAB_SIZE
        for position, token in enumerate((start, *prefix)):
            fold = (fold * 31 + token + 7 * position + 1) % NUM_ROWS
            trace = [x / 2 + (i == token) for i, x in enumerate(trace)]
        logits = [
            table[fold][j] + sum(x * row[j] for x, row in zip(trace, mix, strict=True)) for j in range(VOCAB_SIZE)
        ]
        normalizer = math.log(sum(math.exp(x) for x in logits))
        return [x - normalizer for x in logits]

    return log_probs


def reference_greedy(model: Callable, max_length: int, penalty: str, alpha: float, banned=()) -> list[Found]:
    tokens, total = (), 0.0
    while len(tokens) < max_length and EOS not in tokens:
        log_probs = model(tokens)
        token = max((i for i in range(VOCAB_SIZE) if i not in banned), key=lambda i: log_probs[i])
        tokens, total = (*tokens, token), total + log_probs[token]
    return [Found(tokens, total / reference_penalty(len(tokens), penalty, alpha), total, EOS in tokens)]


def every_prefix(model: Callable, max_length: int, banned=(), prefix=(), total=0.0) -> Iterator[tuple]:
    """(tokens, log_prob) of all sequences of 1 to max_length tokens that go on until EOS."""
    for token, gain in enumerate(model(prefix)):
        if token not in banned:
            tokens = (*prefix, token)
            yield tokens, total + gain
            if token != EOS and len(tokens) < max_length:
                yield from every_prefix(model, max_length, banned, tokens, total + gain)


def reference_exhaustive(model: Callable, max_length: int, penalty: str, alpha: float, banned=()) -> list[Found]:
    """All hypotheses there are: those that end in EOS, then those cut at max_length."""
    found = [
        Found(tokens, total / reference_penalty(len(tokens), penalty, alpha), total, tokens[-1] == EOS)
        for tokens, total in every_prefix(model, max_length, banned)
        if tokens[-1] == EOS or len(tokens) == max_length
    ]
    return sorted(found, key=lambda x: (not x.is_finished, -x.score))


def reference_beam(model: Callable, max_length: int, width: int, penalty: str, alpha: float, banned=()) -> list[Found]:
    """Beam search to the very end, over lists; sorts are stable, so ties keep the order of beams and ids."""
    live, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        candidates = [
            ((*tokens, i), total + gain)
            for tokens, total in live
            for i, gain in enumerate(model(tokens))
            if i not in banned
        ]
        candidates = sorted(candidates, key=lambda x: -x[1])[: 2 * width]
        divisor = reference_penalty(length, penalty, alpha)
        finished += [Found(tokens, total / divisor, total, True) for tokens, total in candidates if tokens[-1] == EOS]
        finished = sorted(finished, key=lambda x: -x.score)[:width]
        live = [x for x in candidates if x[0][-1] != EOS][:width]
    cut = [Found(tokens, total / divisor, total, False) for tokens, total in live]
    return (finished + cut)[:width]


def hypotheses_of(result: Hypotheses, sentence: int) -> list[Found]:
    """The hypotheses that exist, as a reference would return them; the form of the output is checked on the way."""
    found = []
    for tokens, score, log_prob, length, is_finished, gains in zip(*(x[sentence] for x in result), strict=True):
        if log_prob > DEAD:
            assert (tokens[length:] == PAD).all()
            assert (gains[length:] == 0).all()
            assert abs(gains.sum() - log_prob) < TOLERANCE
            found.append(Found(tuple(tokens[:length].tolist()), float(score), float(log_prob), bool(is_finished)))
    return found


def assert_same(got: list[Found], expected: list[Found]) -> None:
    assert [x.tokens for x in got] == [x.tokens for x in expected]
    assert [x.is_finished for x in got] == [x.is_finished for x in expected]
    np.testing.assert_allclose([x.log_prob for x in got], [x.log_prob for x in expected], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose([x.score for x in got], [x.score for x in expected], rtol=0, atol=TOLERANCE)


def assert_equal(one: Hypotheses, other: Hypotheses, where=slice(None)) -> None:
    """Bit for bit."""
    for name, x, y in zip(Hypotheses._fields, one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(x)[where], np.asarray(y)[where], err_msg=name)


def is_clear(scores: list[float]) -> bool:
    """No two of them nearly tie; exact ties are clear."""
    gaps = np.diff(np.sort(scores))
    return gaps[gaps > 0].min(initial=1.0) > NEAR


def check(
    result: Hypotheses, toys: Toys, reference: Callable[[Callable, int], list[Found]], *, least: float = 0.85
) -> None:
    """Compares sentence by sentence, but for the few toys in which float32 may rank two hypotheses otherwise."""
    result = jax.device_get(result)
    num_clear = 0
    for sentence, max_length in enumerate(toys.max_lengths.tolist()):
        model = model_of(toys, sentence)
        expected = reference(model, max_length)
        finished, cut = ([x.score for x in expected if x.is_finished is y] for y in (True, False))
        prefixes = [total for _, total in every_prefix(model, max_length)]
        if is_clear(finished) and is_clear(cut) and is_clear(prefixes):
            num_clear += 1
            assert_same(hypotheses_of(result, sentence), expected)
    assert num_clear >= least * len(toys.seed), num_clear

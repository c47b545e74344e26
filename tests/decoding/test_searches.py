"""Greedy and beam search against slow searches in plain Python, over thousands of random toy models.

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
import pytest

from flax_transformer.common.decode_state import DecodeState
from flax_transformer.decoding.beam_search import beam_search
from flax_transformer.decoding.greedy_and_sampling import greedy_search
from flax_transformer.decoding.problem import Hypotheses, SearchProblem
from flax_transformer.decoding.scorers import length_normalized, length_penalty
from flax_transformer.decoding.transforms import ban

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


def problem_of(toys: Toys, length: int = LENGTH, **pieces) -> SearchProblem:
    return SearchProblem(toys.start, toys.max_lengths, length, EOS, PAD, **pieces)


# alpha is traced, so that one compilation serves every alpha.
@functools.partial(jax.jit, static_argnames=('length', 'penalty', 'banned'))
def greedy(toys: Toys, alpha: float, *, length: int = LENGTH, penalty: str = 'gnmt', banned=()) -> Hypotheses:
    pieces = dict(transforms=(ban(banned),), scorer=length_normalized(penalty, alpha))
    return greedy_search(toy_step, toy_state(toys), problem_of(toys, length, **pieces))


@functools.partial(jax.jit, static_argnames=('width', 'length', 'penalty', 'banned', 'early_stop'))
def beam(
    toys: Toys,
    alpha: float,
    *,
    width: int,
    length: int = LENGTH,
    penalty: str = 'gnmt',
    banned: tuple[int, ...] = (),
    early_stop: bool = True,
) -> Hypotheses:
    pieces = dict(transforms=(ban(banned),), scorer=length_normalized(penalty, alpha))
    problem = problem_of(toys, length, **pieces)
    return beam_search(toy_step, toy_state(toys), problem, width=width, early_stop=early_stop)


# ---------------------------------------------------------------------------- the same in plain Python, float64


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
        normaliser = math.log(sum(math.exp(x) for x in logits))
        return [x - normaliser for x in logits]

    return log_probs


def log_prob_of(model: Callable, tokens: tuple[int, ...]) -> float:
    return sum(model(tokens[:i])[token] for i, token in enumerate(tokens))


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


# ---------------------------------------------------------------------------------------------------- comparing


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


# ------------------------------------------------------------------------------------------------ length penalty


@pytest.mark.parametrize('alpha', [0.0, 0.6, 1.0, 2.0])
def test_length_penalties_equal_their_formulas(alpha):
    lengths = np.arange(1, 101)
    # float32 pow: relative errors of a few 2^-24.
    np.testing.assert_allclose(length_penalty(lengths, 'gnmt', alpha), ((5 + lengths) / 6) ** alpha, rtol=1e-6)
    np.testing.assert_allclose(length_penalty(lengths, 'power', alpha), lengths.astype(float) ** alpha, rtol=1e-6)
    np.testing.assert_array_equal(length_penalty(lengths, 'none', alpha), np.ones(100))


def test_the_gnmt_penalty_has_the_values_of_the_paper():
    # Wu et al. 2016, eq. 14: a length of 1 costs nothing; 7 tokens are (12/6)^alpha.
    np.testing.assert_allclose(length_penalty(np.array([1, 7, 19]), 'gnmt', 0.5), [1, 2**0.5, 2], rtol=1e-6)


@pytest.mark.parametrize('search', [greedy, functools.partial(beam, width=3)], ids=['greedy', 'beam'])
def test_an_unknown_length_penalty_is_refused_by_name(search):
    message = "length_penalty='brevity': expected gnmt, power or none"
    with pytest.raises(ValueError, match=message):
        length_penalty(jnp.arange(3), 'brevity', 0.6)
    with pytest.raises(ValueError, match=message):
        search(make_toys(0, 2), 0.6, penalty='brevity')


# -------------------------------------------------------------------------------------------------------- greedy


@pytest.mark.parametrize(
    ('penalty', 'alpha', 'banned'),
    [('gnmt', 0.6, ()), ('power', 1.0, (PAD,)), ('none', 0.6, (PAD, 3)), ('gnmt', 2.0, (EOS,))],
)
def test_greedy_search_equals_a_plain_loop(penalty, alpha, banned):
    toys = make_toys(1, BATCH)
    result = greedy(toys, alpha, penalty=penalty, banned=banned)
    assert result.tokens.shape == (BATCH, 1, LENGTH)
    check(result, toys, lambda model, n: reference_greedy(model, n, penalty, alpha, banned))
    both = {True, False} if EOS not in banned else {False}
    assert set(np.asarray(result.is_finished).ravel().tolist()) == both, 'the toys are too tame to test anything'


def test_a_beam_of_one_equals_greedy():
    toys = make_toys(2, 150)
    check(beam(toys, 0.6, width=1), toys, lambda model, n: reference_greedy(model, n, 'gnmt', 0.6))


def test_the_best_of_several_beams_is_no_worse_than_finished_greedy_on_most_toys():
    """Not on all: a beam may lose the greedy path. What it must not do is lose it often."""
    toys = make_toys(3, 1000)
    wide, other = beam(toys, 1.0, width=3), greedy(toys, 1.0)
    is_finished = np.asarray(other.is_finished)[:, 0]
    assert is_finished.sum() > 300
    no_worse = (np.asarray(wide.scores) >= np.asarray(other.scores) - TOLERANCE)[:, 0][is_finished]
    assert no_worse.mean() > 0.95


# ---------------------------------------------------------------------------------------------------------- beam


@pytest.mark.parametrize(
    ('penalty', 'alpha'),
    [('gnmt', 0.0), ('gnmt', 0.6), ('gnmt', 2.0), ('power', 0.6), ('power', 1.0), ('power', 2.0), ('none', 0.6)],
)
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(penalty, alpha):
    toys = make_toys(4, BATCH)
    result = beam(toys, alpha, width=WHOLE_SPACE, penalty=penalty, banned=(PAD,))
    check(result, toys, lambda model, n: reference_exhaustive(model, n, penalty, alpha, (PAD,))[:WHOLE_SPACE])


@pytest.mark.parametrize(
    ('width', 'penalty', 'alpha', 'banned'),
    [
        (2, 'gnmt', 0.6, ()),
        (2, 'power', 1.0, (PAD,)),
        (3, 'gnmt', 0.6, (PAD,)),
        (3, 'gnmt', 2.0, (PAD,)),
        (4, 'none', 0.6, ()),
    ],
)
def test_narrow_beams_equal_the_same_search_over_lists(width, penalty, alpha, banned):
    toys = make_toys(5 + width, BATCH)
    result = beam(toys, alpha, width=width, penalty=penalty, banned=banned)
    check(result, toys, lambda model, n: reference_beam(model, n, width, penalty, alpha, banned))


def test_narrow_beams_do_miss_the_best_hypothesis_of_some_toys():
    # Otherwise the narrow searches above would test no more than the exhaustive one.
    toys = make_toys(6, BATCH)
    narrow, wide = (beam(toys, 0.6, width=width, banned=(PAD,)) for width in (2, WHOLE_SPACE))
    assert 0 < (narrow.scores[:, 0] < wide.scores[:, 0] - TOLERANCE).sum() < BATCH - 10


@pytest.mark.parametrize('penalty', ['gnmt', 'power', 'none'])
def test_stopping_early_does_not_change_the_result(penalty):
    toys = make_toys(10, 4000)
    for alpha in (0.0, 0.6, 1.0, 2.0):
        early, full = (beam(toys, alpha, width=2, penalty=penalty, early_stop=stop) for stop in (True, False))
        # Two programs, so scores may differ in the last bits; and the order, where two hypotheses nearly tie.
        np.testing.assert_allclose(early.scores, full.scores, rtol=0, atol=TOLERANCE)
        np.testing.assert_array_equal(early.is_finished, full.is_finished)
        assert (np.asarray(early.tokens) != np.asarray(full.tokens)).any((1, 2)).mean() < 1e-3


def steps_taken(toys: Toys, alpha: float, *, early_stop: bool) -> np.ndarray:
    """Steps [B] of the search over each sentence alone."""
    steps = np.zeros(len(toys.seed), int)

    def search(argument: tuple[jax.Array, Toys]) -> jax.Array:
        index, toy = argument
        toy = jax.tree.map(lambda x: x[None], toy)

        def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
            jax.debug.callback(lambda i: np.add.at(steps, i, 1), index)
            return toy_step(tokens, state)

        problem = problem_of(toy, scorer=length_normalized('gnmt', alpha))
        return beam_search(step, toy_state(toy), problem, width=2, early_stop=early_stop).tokens

    jax.block_until_ready(jax.jit(lambda toys: jax.lax.map(search, (jnp.arange(len(steps)), toys)))(toys))
    jax.effects_barrier()
    return steps


def test_stopping_early_saves_steps_and_takes_none_too_many():
    toys = make_toys(11, BATCH)
    np.testing.assert_array_equal(steps_taken(toys, 0.6, early_stop=False), toys.max_lengths)
    steps = steps_taken(toys, 0.6, early_stop=True)
    assert (steps <= toys.max_lengths).all()
    assert (steps < toys.max_lengths).mean() > 0.1
    # The first step ends one hypothesis at the most, and two are needed.
    assert steps[toys.max_lengths > 1].min() > 1


def twin_toys(seed: int, batch: int) -> Toys:
    """Toys in which ids 2 and 3 always tie, and go on differently."""
    toys = make_toys(seed, batch)
    toys.table[..., 3] = toys.table[..., 2]
    toys.mix[..., 3] = toys.mix[..., 2]
    return toys


@pytest.mark.parametrize('width', [2, 3])
def test_ties_go_to_the_lower_id(width):
    toys = twin_toys(12, BATCH)
    result = beam(toys, 0.6, width=width)
    check(result, toys, lambda model, n: reference_beam(model, n, width, 'gnmt', 0.6))


def test_greedy_ties_go_to_the_lower_id():
    toys = twin_toys(12, BATCH)
    check(greedy(toys, 0.6), toys, lambda model, n: reference_greedy(model, n, 'gnmt', 0.6))


def test_ties_go_to_the_lower_beam_then_the_lower_id():
    toys = jax.tree.map(np.zeros_like, make_toys(0, BATCH))._replace(max_lengths=np.full(BATCH, LENGTH, np.int32))
    # Everything ties. Step 1 ends 1 and keeps 2, 3. Step 2 has 21, 22, 23 | 31, 32, 33: two more end.
    expected = [[1, 0, 0, 0, 0], [2, 1, 0, 0, 0], [3, 1, 0, 0, 0]]
    for _ in range(3):
        result = beam(toys, 0.6, width=3, banned=(PAD,))
        np.testing.assert_array_equal(result.tokens, np.broadcast_to(expected, (BATCH, 3, LENGTH)))
    # With EOS banned all are cut: of beams 222, 223, 232, ... the first of the first.
    result = beam(toys, 0.6, width=3, banned=(PAD, EOS))
    expected = [[2, 2, 2, 2, 2], [2, 2, 2, 2, 3], [2, 2, 2, 3, 2]]
    np.testing.assert_array_equal(result.tokens, np.broadcast_to(expected, (BATCH, 3, LENGTH)))


@pytest.mark.parametrize('search', [greedy, functools.partial(beam, width=3)], ids=['greedy', 'beam'])
def test_a_sentence_does_not_depend_on_its_neighbours(search):
    toys, others = make_toys(13, BATCH), make_toys(14, BATCH)
    result = search(toys, 0.6)
    assert_equal(search(Toys(*(x[::-1] for x in toys)), 0.6), Hypotheses(*(x[::-1] for x in result)))
    is_kept = np.arange(BATCH) % 3 == 0
    for max_lengths in (others.max_lengths, np.full(BATCH, 1), np.full(BATCH, LENGTH)):
        neighbours = others._replace(max_lengths=max_lengths.astype(np.int32))
        mixed = Toys(
            *(np.where(is_kept.reshape(-1, *[1] * (x.ndim - 1)), x, y) for x, y in zip(toys, neighbours, strict=True))
        )
        assert_equal(search(mixed, 0.6), result, is_kept)


@pytest.mark.parametrize('search', [greedy, functools.partial(beam, width=3)], ids=['greedy', 'beam'])
def test_more_slots_than_tokens_change_nothing_but_the_padding(search):
    toys = make_toys(15, BATCH)
    tight, roomy = search(toys, 0.6), search(toys, 0.6, length=LENGTH + 3)
    assert (roomy.tokens[..., LENGTH:] == PAD).all()
    # Two programs: the scores may differ in the last bits.
    np.testing.assert_array_equal(roomy.tokens[..., :LENGTH], tight.tokens)
    np.testing.assert_array_equal(roomy.lengths, tight.lengths)
    np.testing.assert_allclose(roomy.scores, tight.scores, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(('width', 'banned'), [(3, (PAD,)), (3, (PAD, EOS)), (2, (2, 3)), (WHOLE_SPACE, (PAD,))])
def test_banned_ids_are_never_chosen(width, banned):
    toys = make_toys(16, BATCH)
    result = jax.device_get(beam(toys, 0.6, width=width, banned=banned))
    assert len(hypotheses_of(result, 0)) > 0
    for sentence in range(BATCH):
        for hypothesis in hypotheses_of(result, sentence):
            assert not set(hypothesis.tokens) & set(banned)
            assert not (hypothesis.is_finished and EOS in banned)


@pytest.mark.parametrize(('width', 'banned'), [(3, ()), (WHOLE_SPACE, (PAD,))])
def test_hypotheses_are_sorted_distinct_and_worth_what_they_say(width, banned):
    toys = make_toys(17, BATCH)
    result = jax.device_get(beam(toys, 0.6, width=width, banned=banned))
    is_real = result.log_probs > DEAD
    # Finished before cut before nothing, the best first among each.
    group = np.where(is_real, np.where(result.is_finished, 0, 1), 2)
    assert (np.diff(group, axis=1) >= 0).all()
    is_sorted = np.diff(result.scores, axis=1) <= 0
    assert (is_sorted | (np.diff(group, axis=1) > 0)).all()
    for sentence, max_length in enumerate(toys.max_lengths):
        found, model = hypotheses_of(result, sentence), model_of(toys, sentence)
        assert len({x.tokens for x in found}) == len(found) > 0
        for tokens, score, log_prob, is_finished in found:
            assert abs(log_prob - log_prob_of(model, tokens)) < TOLERANCE
            assert abs(score - log_prob / reference_penalty(len(tokens), 'gnmt', 0.6)) < TOLERANCE
            assert is_finished == (tokens[-1] == EOS)
            assert EOS not in tokens[:-1]
            assert is_finished or len(tokens) == max_length

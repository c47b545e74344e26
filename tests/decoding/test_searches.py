"""Greedy and beam search against slow searches in plain Python, over thousands of random toy models."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding_toys import (
    BATCH,
    EOS,
    LENGTH,
    PAD,
    VOCAB_SIZE,
    WHOLE_SPACE,
    Toys,
    assert_equal,
    check,
    make_toys,
    problem_of,
    reference_beam,
    reference_exhaustive,
    reference_greedy,
    toy_state,
    toy_step,
)

from flax_transformer.common.trees import DecodeState
from flax_transformer.decoding import problem
from flax_transformer.decoding.beam_search import LOOK_AHEAD, beam_search
from flax_transformer.decoding.greedy_and_sampling import greedy_search
from flax_transformer.decoding.problem import NEG_INF, Hypotheses, SearchProblem
from flax_transformer.decoding.scorers import Scorer, length_normalized

PENALTIES = ('gnmt', 'power', 'none')


def traced_problem(toys: Toys, length: int, alpha: float, penalty: int, is_banned: jax.Array) -> SearchProblem:
    """`length_normalized` and `ban` of traced arguments, so that one compilation serves all of them."""
    scorers = [length_normalized(name, alpha) for name in PENALTIES]
    select = lambda values: jnp.select([penalty == i for i in range(len(PENALTIES))], values)
    scorer = Scorer(
        score=lambda *args: select([scorer.score(*args) for scorer in scorers]),
        bound=lambda *args: select([scorer.bound(*args) for scorer in scorers]),
    )
    without_banned = lambda log_probs, history: jnp.where(is_banned[None], NEG_INF, log_probs)

    def of_rows(rows: jax.Array) -> SearchProblem:  # so that open searches go on in smaller batches
        own = jax.tree.map(lambda x: x[rows], toys)
        return traced_problem(own, length, alpha, penalty, is_banned)

    return problem_of(toys, length, transforms=(without_banned,), scorer=scorer, of_rows=of_rows)


@functools.partial(jax.jit, static_argnames=('length',))
def compiled_greedy(toys: Toys, *args, length: int) -> Hypotheses:
    return greedy_search(toy_step, toy_state(toys), traced_problem(toys, length, *args))


@functools.partial(jax.jit, static_argnames=('length', 'width'))
def compiled_beam(toys: Toys, *args, length: int, width: int) -> Hypotheses:
    problem = traced_problem(toys, length, *args)
    return beam_search(toy_step, toy_state(toys), problem, width=width)


def greedy(toys: Toys, alpha: float, *, length: int = LENGTH, penalty: str = 'gnmt', banned=()) -> Hypotheses:
    args = alpha, PENALTIES.index(penalty), np.isin(np.arange(VOCAB_SIZE), banned)
    return compiled_greedy(toys, *args, length=length)


def beam(toys: Toys, alpha: float, *, width: int, length: int = LENGTH, penalty: str = 'gnmt', banned=()) -> Hypotheses:
    args = alpha, PENALTIES.index(penalty), np.isin(np.arange(VOCAB_SIZE), banned)
    return compiled_beam(toys, *args, length=length, width=width)


@pytest.mark.parametrize(
    ('penalty', 'alpha', 'banned'),
    [('power', 1.0, (PAD,)), ('none', 0.6, (PAD, 3)), ('gnmt', 2.0, (EOS,))],
)
def test_greedy_search_equals_a_plain_loop(penalty, alpha, banned):
    toys = make_toys(1, BATCH)
    result = greedy(toys, alpha, penalty=penalty, banned=banned)
    assert result.tokens.shape == (BATCH, 1, LENGTH)
    check(result, toys, lambda model, n: reference_greedy(model, n, penalty, alpha, banned))
    both = {True, False} if EOS not in banned else {False}
    assert set(np.asarray(result.is_finished).ravel().tolist()) == both, 'the toys are too tame to test anything'


@pytest.mark.parametrize(
    ('penalty', 'alpha'),
    [('gnmt', 0.0), ('gnmt', 2.0), ('power', 1.0), ('none', 0.6)],
)
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(penalty, alpha):
    toys = make_toys(4, BATCH)
    result = beam(toys, alpha, width=WHOLE_SPACE, penalty=penalty, banned=(PAD,))
    check(result, toys, lambda model, n: reference_exhaustive(model, n, penalty, alpha, (PAD,))[:WHOLE_SPACE])


@pytest.mark.parametrize(
    ('width', 'penalty', 'alpha', 'banned'),
    [
        (2, 'power', 1.0, (PAD,)),
        (3, 'gnmt', 0.6, (PAD,)),
        (3, 'none', 0.6, ()),
    ],
)
@pytest.mark.slow_cases('2-power-1.0-banned0', '3-none-0.6-banned2')
def test_narrow_beams_equal_the_same_search_over_lists(width, penalty, alpha, banned):
    toys = make_toys(5 + width, BATCH)
    result = beam(toys, alpha, width=width, penalty=penalty, banned=banned)
    check(result, toys, lambda model, n: reference_beam(model, n, width, penalty, alpha, banned))


def steps_taken(toys: Toys, scorer: Scorer) -> np.ndarray:
    """Steps [B] of the search over each sentence alone."""
    steps = np.zeros(len(toys.seed), int)

    def search(argument: tuple[jax.Array, Toys]) -> jax.Array:
        index, toy = argument
        toy = jax.tree.map(lambda x: x[None], toy)

        def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
            jax.debug.callback(lambda i: np.add.at(steps, i, 1), index)
            return toy_step(tokens, state)

        return beam_search(step, toy_state(toy), problem_of(toy, scorer=scorer), width=2).tokens

    jax.block_until_ready(jax.jit(lambda toys: jax.lax.map(search, (jnp.arange(len(steps)), toys)))(toys))
    jax.effects_barrier()
    return steps


@pytest.mark.slow
def test_stopping_early_saves_steps_and_takes_none_too_many():
    toys = make_toys(11, BATCH)
    scorer = length_normalized()
    never = scorer._replace(bound=lambda log_probs, lengths: jnp.full_like(log_probs, jnp.inf))
    np.testing.assert_array_equal(steps_taken(toys, never), toys.max_lengths)
    steps = steps_taken(toys, scorer)
    assert (steps <= toys.max_lengths).all()
    assert (steps < toys.max_lengths).mean() > 0.1
    # The first step ends one hypothesis at the most, and two are needed.
    assert steps[toys.max_lengths > 1].min() > 1


@pytest.mark.parametrize(('nats', 'is_found'), [(LOOK_AHEAD + 1.5, True), (LOOK_AHEAD + 2.5, False)])
def test_a_search_waits_for_hypotheses_that_can_overtake_within_some_tokens(nats, is_found):
    """EOS at once scores -1, and 2 EOS more. 3 costs so many nats, and all that follows it is certain."""
    last = LOOK_AHEAD + 4

    def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        costs = jnp.array([-jnp.inf, -1.0, jnp.log(1 - jnp.exp(-1.0) - jnp.exp(-nats)), -nats])
        ends = (tokens == 2) | (state.position == last - 1)
        certain = jnp.log(jax.nn.one_hot(jnp.where(ends, EOS, 3), VOCAB_SIZE))
        logits = jnp.where(state.position == 0, costs[None], certain)
        return jnp.maximum(logits, NEG_INF), state._replace(position=state.position + 1)

    problem = SearchProblem(
        jnp.zeros(1, jnp.int32), jnp.full(1, 20), 20, EOS, PAD, scorer=length_normalized('power', 1.0)
    )
    found = beam_search(step, DecodeState({}, {}, jnp.int32(0)), problem, width=2)
    np.testing.assert_array_equal(found.lengths, [[2, last if is_found else 1]])


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
def test_a_sentence_does_not_depend_on_its_neighbors(search):
    toys, others = make_toys(13, BATCH), make_toys(14, BATCH)
    result = search(toys, 0.6)
    assert_equal(search(Toys(*(x[::-1] for x in toys)), 0.6), Hypotheses(*(x[::-1] for x in result)))
    is_kept = np.arange(BATCH) % 3 == 0
    for max_lengths in (others.max_lengths, np.full(BATCH, 1), np.full(BATCH, LENGTH)):
        neighbors = others._replace(max_lengths=max_lengths.astype(np.int32))
        mixed = Toys(
            *(np.where(is_kept.reshape(-1, *[1] * (x.ndim - 1)), x, y) for x, y in zip(toys, neighbors, strict=True))
        )
        assert_equal(search(mixed, 0.6), result, is_kept)


class Room(NamedTuple):
    """Slots that no step reads."""

    values: jax.Array

    def with_room(self, slots: int) -> 'Room':
        return Room(jnp.pad(self.values, ((0, 0), (0, slots - self.values.shape[1]))))


def test_lines_that_go_on_in_turn_do_not_change_those_that_ended(monkeypatch):
    """Of 12 lines 8 go on first, then the others with some of these; one may have more tokens than there is room."""
    monkeypatch.setattr(problem, 'FIRST_STAGE', 2)
    toys = make_toys(3, 12)._replace(max_lengths=np.array([9, 8, 7, 1, 9, 8, 7, 2, 9, 8, 7, 12], np.int32))
    toys.table[:, :, EOS] -= 4

    def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        logits, after = toy_step(tokens, state._replace(slots=()))
        return logits, after._replace(slots=state.slots)

    def of(toys: Toys) -> SearchProblem:
        return problem_of(toys, 9, of_rows=lambda rows: of(jax.tree.map(lambda x: x[rows], toys)))

    @functools.partial(jax.jit, static_argnames='is_divided')
    def found(toys: Toys, is_divided: bool) -> Hypotheses:
        state = toy_state(toys)._replace(slots=Room(jnp.zeros((12, 0))))
        return greedy_search(step, state, of(toys) if is_divided else problem_of(toys, 9))

    jax.tree.map(np.testing.assert_array_equal, *(found(toys, is_divided) for is_divided in (False, True)))

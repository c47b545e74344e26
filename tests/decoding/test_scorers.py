"""What a hypothesis is worth: rewards, coverage, ensembles and diverse groups, each against plain Python."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding_toys import (
    BATCH,
    EOS,
    PAD,
    VOCAB_SIZE,
    WHOLE_SPACE,
    Found,
    Toys,
    assert_same,
    attending_step,
    every_prefix,
    hypotheses_of,
    is_clear,
    make_toys,
    model_of,
    problem_of,
    reference_penalty,
    toy_state,
    toy_step,
)

from flax_transformer.decoding import transforms
from flax_transformer.decoding.beam_search import beam_search
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.decoding.scorers import add, coverage_penalty, length_normalized, with_coverage, word_reward
from flax_transformer.decoding.search import ensemble, ensemble_state

SOURCE = 3  # slots of the toys' source
IS_SOURCE = np.arange(SOURCE)[None] <= np.arange(BATCH)[:, None] % SOURCE
WITHOUT_PAD = (transforms.ban((PAD,)),)


def exhaustive(model, max_length: int, score) -> list[Found]:
    """All hypotheses, by score(tokens, log_prob), the finished ones first."""
    found = [
        Found(tokens, score(tokens, total), total, tokens[-1] == EOS)
        for tokens, total in every_prefix(model, max_length, (PAD,))
        if tokens[-1] == EOS or len(tokens) == max_length
    ]
    return sorted(found, key=lambda x: (not x.is_finished, -x.score))[:WHOLE_SPACE]


def compare(result: Hypotheses, toys: Toys, expect, *, least: float = 0.85) -> None:
    result = jax.device_get(result)
    num_clear = 0
    for sentence, max_length in enumerate(toys.max_lengths.tolist()):
        expected = expect(sentence, max_length)
        if is_clear([x.score for x in expected]):
            num_clear += 1
            assert_same(hypotheses_of(result, sentence), expected)
    assert num_clear >= least * len(toys.seed)


@pytest.mark.parametrize('reward', [0.5, 3.0])
@pytest.mark.slow_cases('3.0')
def test_a_word_reward_is_added_for_each_token(reward):
    toys = make_toys(31, BATCH)
    scorer = add(length_normalized('none', 0.0), word_reward(reward))

    @jax.jit
    def search(toys):
        problem = problem_of(toys, transforms=WITHOUT_PAD, scorer=scorer)
        return beam_search(toy_step, toy_state(toys), problem, width=WHOLE_SPACE)

    score = lambda tokens, total: total + reward * len(tokens)
    compare(search(toys), toys, lambda i, n: exhaustive(model_of(toys, i), n, score))


def coverage_of(toys: Toys, sentence: int, tokens: tuple[int, ...]) -> list[float]:
    """The attention of each slot, summed over the tokens, in plain Python."""
    trace, coverage = [0.0] * VOCAB_SIZE, [0.0] * SOURCE
    for token in (int(toys.start[sentence]), *tokens[:-1]):
        trace = [x / 2 + (i == token) for i, x in enumerate(trace)]
        weights = [math.exp(2 * x) for x in trace[:SOURCE]]
        coverage = [c + w / sum(weights) for c, w in zip(coverage, weights, strict=True)]
    return coverage


@pytest.mark.parametrize('width', [1, WHOLE_SPACE])
def test_a_coverage_penalty_is_that_of_the_paper(width):
    """Wu et al. 2016, eq. 14."""
    toys, beta = make_toys(33, BATCH), 0.8

    @jax.jit
    def search(toys):
        step, state = with_coverage(attending_step, toy_state(toys), BATCH, SOURCE)
        scorer = add(length_normalized('gnmt', 0.6), coverage_penalty(beta, jnp.asarray(IS_SOURCE)))
        return beam_search(step, state, problem_of(toys, transforms=WITHOUT_PAD, scorer=scorer), width=width)

    result = search(toys)

    def worth(i, tokens, total):
        covered = zip(coverage_of(toys, i, tokens), IS_SOURCE[i], strict=True)
        penalty = beta * sum(math.log(min(c, 1.0)) for c, is_source in covered if is_source)
        return total / reference_penalty(len(tokens), 'gnmt', 0.6) + penalty

    if width > 1:
        compare(result, toys, lambda i, n: exhaustive(model_of(toys, i), n, functools.partial(worth, i)))
    for i in range(BATCH):
        (best, *_) = hypotheses_of(jax.device_get(result), i)
        assert best.score == pytest.approx(worth(i, best.tokens, best.log_prob), abs=1e-4)


@pytest.mark.parametrize('mean', ['log_probability', 'probability'])
@pytest.mark.slow_cases('probability')
def test_an_ensemble_searches_under_the_mean_of_its_members(mean):
    toys, others = make_toys(34, BATCH), make_toys(35, BATCH)

    @jax.jit
    def search(toys, others):
        state = ensemble_state([toy_state(toys), toy_state(others)])
        problem = problem_of(toys, transforms=WITHOUT_PAD)
        return beam_search(ensemble([toy_step, toy_step], mean=mean), state, problem, width=WHOLE_SPACE)

    def mixed(i):
        one, other = model_of(toys, i), model_of(others._replace(start=toys.start), i)

        def model(prefix):
            pairs = list(zip(one(prefix), other(prefix), strict=True))
            if mean == 'probability':
                return [math.log((math.exp(x) + math.exp(y)) / 2) for x, y in pairs]
            geometric = [(x + y) / 2 for x, y in pairs]
            total = math.log(sum(math.exp(x) for x in geometric))
            return [x - total for x in geometric]

        return model

    score = lambda tokens, total: total / reference_penalty(len(tokens), 'gnmt', 0.6)
    compare(search(toys, others), toys, lambda i, n: exhaustive(mixed(i), n, score))


def reference_groups(model, max_length: int, width: int, groups: int, diversity: float) -> list[Found]:
    """Vijayakumar et al. 2018, algorithm 1, over lists, with a Hamming penalty and finished hypotheses kept."""
    size = width // groups
    live = [[((), 0.0)] for _ in range(groups)]
    finished: list[list[Found]] = [[] for _ in range(groups)]
    for length in range(1, max_length + 1):
        taken = [0] * VOCAB_SIZE
        for g in range(groups):
            candidates = [
                (tokens, i, total + gain)
                for tokens, total in live[g]
                for i, gain in enumerate(model(tokens))
                if i != PAD
            ]
            candidates = sorted(candidates, key=lambda x: -(x[2] - diversity * taken[x[1]]))[: 2 * size]
            divisor = reference_penalty(length, 'gnmt', 0.6)
            ends = [Found((*t, i), total / divisor, total, True) for t, i, total in candidates if i == EOS]
            finished[g] = sorted(finished[g] + ends, key=lambda x: -x.score)[:size]
            chosen = [(t, i, total) for t, i, total in candidates if i != EOS][:size]
            live[g] = [((*t, i), total) for t, i, total in chosen]
            for _, i, _ in chosen:
                taken[i] += 1
    cut = [[Found(tokens, total / divisor, total, False) for tokens, total in group] for group in live]
    best = {x.tokens: x for whole, rest in zip(finished, cut, strict=True) for x in (whole + rest)[:size]}
    return sorted(best.values(), key=lambda x: (not x.is_finished, -x.score))


@functools.partial(jax.jit, static_argnames=('width', 'groups'))
def diverse(toys: Toys, diversity: float, *, width: int, groups: int) -> Hypotheses:
    problem = problem_of(toys, transforms=WITHOUT_PAD)
    return beam_search(toy_step, toy_state(toys), problem, width=width, groups=groups, diversity=diversity)


@pytest.mark.parametrize(('width', 'groups', 'diversity'), [(4, 2, 0.5), (3, 3, 5.0), (4, 2, 5.0)])
@pytest.mark.slow_cases('3-3-5.0')
def test_diverse_groups_equal_the_algorithm_over_lists(width, groups, diversity):
    toys = make_toys(36, BATCH)
    result = diverse(toys, diversity, width=width, groups=groups)

    def expect(i, max_length):
        model = model_of(toys, i)
        # Near ties of the ranking within a step would show as near ties of these too.
        if not is_clear([total for _, total in every_prefix(model, max_length, (PAD,))]):
            return [Found((), x, 0.0, True) for x in (0.0, 1e-9)]  # not clear: left out
        return reference_groups(model, max_length, width, groups, diversity)

    compare(result, toys, expect, least=0.7)

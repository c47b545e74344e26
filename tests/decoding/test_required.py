"""Required phrases: against all hypotheses that there are, and without effect on sentences that require nothing."""

import functools

import jax
import numpy as np
import pytest
from decoding_toys import (
    BATCH,
    PAD,
    WHOLE_SPACE,
    assert_equal,
    assert_same,
    hypotheses_of,
    make_toys,
    model_of,
    problem_of,
    reference_exhaustive,
    toy_state,
    toy_step,
)

from flax_transformer.decoding.beam_search import MOST_WANTED, beam_search, most_wanted
from flax_transformer.decoding.problem import NEG_INF, NONE, Hypotheses
from flax_transformer.decoding.required import (
    advance,
    allocate,
    attended,
    banks,
    begun,
    first_progress,
    make_required,
    steer,
    wanted_tokens,
)
from flax_transformer.decoding.transforms import ban

# Phrases of alternatives; the toys' words are 2 and 3.
CASES = [
    [],
    [[[2]]],
    [[[2, 3]]],
    [[[2]], [[2]]],  # twice
    [[[2, 3]], [[3, 2]]],  # may overlap
    [[[2]], [[2, 3]]],  # one begins the other
    [[[2, 2], [3, 3, 3]]],  # either
    [[[2], [3, 3]], [[2], [3, 3]], [[3, 2]]],
    [[[2], [2, 3]], [[2], [2, 3]]],  # alternatives of one word
    [[[2, 3, 2]], [[3, 2, 2]]],
    [[[2, 2, 2, 2, 2]]],  # too long for any, with EOS
]


def phrases_of(cases: list) -> np.ndarray:
    phrases = np.full((len(cases), 3, 2, 5), NONE, np.int32)
    for row, case in enumerate(cases):
        for group, alternatives in enumerate(case):
            for number, ids in enumerate(alternatives):
                phrases[row, group, number, : len(ids)] = ids
    return phrases


def has_all(tokens: tuple[int, ...], case: list) -> bool:
    def times(phrase: list[list[int]]) -> int:
        count = begin = 0
        for end in range(len(tokens) + 1):
            if any(list(tokens[max(end - len(ids), begin) : end]) == ids for ids in phrase):
                count, begin = count + 1, end
        return count

    return all(
        times(phrase) >= 1 + sum(earlier == phrase for earlier in case[:number]) for number, phrase in enumerate(case)
    )


@functools.cache
def searched(width: int) -> tuple[Hypotheses, Hypotheses, list]:
    """What is found with the cases in turn, and with nothing required."""
    toys, cases = make_toys(11, BATCH), [CASES[i % len(CASES)] for i in range(BATCH)]
    problem = problem_of(toys, transforms=(ban([PAD]),))
    required = problem._replace(required=make_required(phrases_of(cases)))

    @jax.jit
    def both() -> tuple[Hypotheses, Hypotheses]:
        return tuple(beam_search(toy_step, toy_state(toys), each, width=width) for each in (required, problem))

    return (*jax.device_get(both()), cases)


def test_what_goes_on_with_a_phrase_is_a_candidate_before_what_is_more_probable() -> None:
    number = np.arange(16)
    phrases = np.stack([[number, 50 + number], [20 + number, 70 + number]]).transpose(0, 2, 1)[None]  # [1, 2, 16, 2]
    required = make_required(jax.numpy.asarray(phrases))
    may_begin = np.ones((1, 1, 2), bool)
    progress = advance(required, first_progress(required, 1), np.array([[3]]), may_begin)
    parts = begun(required, progress)
    assert parts.sum() == parts[0, 0, 0, 3] == 1
    wanted = wanted_tokens(required, progress.counts, parts, may_begin).reshape(1, 1, -1)
    wanted = np.append(wanted, NONE)[None, None]

    ranking = -np.arange(100.0, dtype=np.float32)[None, None]
    best = [53, *(token for token in range(16) if token != 3)]
    assert most_wanted(wanted, progress, ranking, required)[0, 0].tolist() == best[:MOST_WANTED]


@pytest.mark.slow
def test_a_beam_as_wide_as_the_space_finds_every_hypothesis_with_all_phrases() -> None:
    toys = make_toys(11, BATCH)
    result, _, cases = searched(WHOLE_SPACE)
    count = 0
    for sentence, case in enumerate(cases):
        every = reference_exhaustive(model_of(toys, sentence), int(toys.max_lengths[sentence]), 'gnmt', 0.6, (PAD,))
        expected = [each for each in every if each.is_finished and has_all(each.tokens, case)]
        got = [each for each in hypotheses_of(result, sentence) if each.is_finished]
        assert_same(got, expected)
        count += bool(expected) and bool(case)
    assert count > BATCH / 4


@pytest.mark.parametrize('width', [4, pytest.param(WHOLE_SPACE, marks=pytest.mark.slow)])
def test_a_sentence_that_requires_nothing_is_translated_as_without_the_others(width: int) -> None:
    result, plain, cases = searched(width)
    assert_equal(result, plain, np.array([not case for case in cases]))


def test_a_narrow_beam_finds_a_hypothesis_with_all_phrases_where_there_is_one() -> None:
    toys = make_toys(11, BATCH)
    result, _, cases = searched(4)
    found = possible = 0
    for sentence, case in enumerate(cases):
        every = reference_exhaustive(model_of(toys, sentence), int(toys.max_lengths[sentence]), 'gnmt', 0.6, (PAD,))
        finished = [each for each in hypotheses_of(result, sentence) if each.is_finished]
        assert all(has_all(each.tokens, case) for each in finished)
        possible += any(each.is_finished and has_all(each.tokens, case) for each in every)
        found += bool(finished)
    assert found >= 0.95 * possible


def test_at_its_place_a_phrase_alone_is_left_and_after_it_neither_its_word_goes_on_nor_what_it_replaced_comes() -> None:
    """Hypotheses attend to the place of a phrase that they lack, sure and unsure, elsewhere, and have just said it."""
    required = make_required(np.array([[[[5, 6]], [[1, 6]]]]), np.array([[[1, 2], [1, 2]]]), glued=(7,))
    progress = first_progress(required, 4)
    progress = progress._replace(
        counts=np.array([[[0, 1], [0, 1], [0, 1], [1, 1]]]),
        has_ended=np.array([[[False] * 2] * 3 + [[True, False]]]),
        replaced=np.array([[[NONE] * 2] * 3 + [[2, NONE]]]),
    )
    attention = np.array([[[0.4, 0.6], [0.4, 0.6], [0.9, 0.1], [0.9, 0.1]]])
    wanted = np.array([[[5], [5], [NONE], [NONE]]])
    sure = [0.02, 0.02, 0.02, 0.8, 0.02, 0.04, 0.02, 0.06]
    unsure = [0.12, 0.12, 0.12, 0.2, 0.12, 0.11, 0.1, 0.11]
    log_probs = np.log(np.array([[sure, unsure, sure, sure]], np.float32))

    shares = attended(required, attention)
    np.testing.assert_allclose(shares, attention[..., 1:].repeat(2, axis=-1))
    found, after = jax.jit(steer)(log_probs, required, progress, wanted, shares)
    left = np.asarray(found > NEG_INF / 2)[0].astype(int).tolist()
    assert left == [*[[0, 0, 0, 0, 0, 1, 0, 0]] * 2, [1] * 8, [1, 1, 0, 1, 1, 1, 1, 0]]
    assert after.replaced[0].tolist() == [[3, NONE], [NONE, NONE], [NONE, NONE], [2, NONE]]
    assert log_probs[0, 0, 5] < found[0, 0, 5] < log_probs[0, 0, 3]


def test_every_token_of_a_phrase_fills_a_bank() -> None:
    """Else a word of many pieces is begun again and again where that is more probable than its next piece."""
    required = make_required(phrases_of([[[[2, 3, 2]], [[4]]]]))
    counts, parts = np.zeros((1, 5, 3), np.int32), np.zeros((1, 5, 3, 2), np.int32)
    parts[0, 1:3, 0, 0] = 1, 2
    counts[0, 3:, 0] = 1
    counts[0, 4, 1] = 1
    assert banks(required, counts, parts).tolist() == [[0, 1, 2, 5, 10]]


@pytest.mark.slow
def test_the_best_comes_first_then_the_fullest_banks() -> None:
    assert allocate(np.array([[-1.0, -2.0, -3.0, -4.0]]), np.array([[0, 0, 1, 2]]), 3).tolist() == [[0, 3, 2]]

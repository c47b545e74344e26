"""Debiasing does what the paper's equations say, and its measures find what was planted."""

from itertools import combinations

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.bias import (
    association,
    bias_direction,
    biases,
    debiased,
    direct_bias,
    equalize,
    neutralize,
    remaining_bias,
)
from flax_transformer.tasks.embeddings.vectors import WordVectors

PAIRS = (('she', 'he'), ('woman', 'man'), ('girl', 'boy'))
JOBS = tuple(f'job{number}' for number in range(60))


def planted(seed: int = 0) -> tuple[WordVectors, np.ndarray]:
    """Words, 60 of them jobs that lean to one side or the other along a direction, and that direction."""
    generator = np.random.default_rng(seed)
    direction = np.eye(20)[3]
    matrix, words = [], []
    for pair in PAIRS:
        common = generator.standard_normal(20)
        for word, sign in zip(pair, (1, -1), strict=True):
            words.append(word)
            matrix.append(common + sign * 3 * direction + 0.1 * generator.standard_normal(20))
    topic = 2 * np.eye(20)[7]  # what jobs of one side also have in common
    for number, job in enumerate(JOBS):
        sign = 1 if number % 2 else -1
        words.append(job)
        matrix.append(generator.standard_normal(20) + sign * (2 * direction + topic))
    return WordVectors(words, np.array(matrix)), direction


def test_the_direction_is_the_first_principal_component_of_centered_pairs() -> None:
    vectors, direction = planted()
    rows = []
    for pair in PAIRS:
        both = vectors.units[vectors.ids_of(pair)].astype(float)
        rows += list(both - both.mean(axis=0))
    values, components = np.linalg.eigh(np.cov(np.array(rows).T, bias=True))
    found = bias_direction(vectors, PAIRS)
    assert abs(components[:, values.argmax()] @ found) == pytest.approx(1)
    assert found @ direction > 0.98  # what was planted, toward the first words
    assert bias_direction(vectors, [pair[::-1] for pair in PAIRS]) == pytest.approx(-found)


def test_a_neutralized_vector_has_no_part_along_the_direction_and_keeps_the_rest() -> None:
    generator = np.random.default_rng(1)
    v, g = generator.standard_normal((4, 9)), generator.standard_normal(9)  # not of length 1, as in the notes
    found = neutralize(v, g)
    assert found @ g == pytest.approx(np.zeros(4), abs=1e-12)
    assert v - found == pytest.approx((v @ g / (g @ g))[:, None] * g[None])


def test_equalized_vectors_have_length_1_and_differ_along_the_direction_alone() -> None:
    generator = np.random.default_rng(2)
    first, second = (v / np.linalg.norm(v) for v in generator.standard_normal((2, 9)))
    g = generator.standard_normal(9)
    one, other = equalize(first, second, g)
    assert np.linalg.norm(one) == pytest.approx(1)
    assert np.linalg.norm(other) == pytest.approx(1)
    assert neutralize(one, g) == pytest.approx(neutralize(other, g))
    assert neutralize(one, g) == pytest.approx(neutralize((first + second) / 2, g))
    assert one @ g == pytest.approx(-(other @ g))
    assert np.sign(one @ g - other @ g) == np.sign(first @ g - second @ g)
    neutral = neutralize(generator.standard_normal(9), g)
    assert neutral @ one == pytest.approx(neutral @ other)
    with pytest.raises(UserError, match='do not differ along the direction'):
        equalize(first, first, g)


def test_debiasing_leaves_specific_words_and_takes_the_direct_bias_of_others() -> None:
    vectors, _ = planted()
    g = bias_direction(vectors, PAIRS)
    after, neutralized, equalized = debiased(vectors, g, specific={'job0'}, pairs=[*PAIRS, ('lad', 'lass')])
    assert (neutralized, equalized) == (59, 3)
    assert after.words == vectors.words
    assert np.linalg.norm(after.matrix, axis=1) == pytest.approx(np.ones(66), abs=1e-6)
    assert after['job0'] == pytest.approx(vectors.units[vectors.id_of('job0')], abs=1e-6)
    assert direct_bias(vectors, JOBS[1:], g) > 0.3
    assert direct_bias(after, JOBS[1:], g) < 1e-6
    for job in JOBS[1:]:
        assert after.similarity(job, 'she') == pytest.approx(after.similarity(job, 'he'), abs=1e-6)


def test_pairs_that_share_a_word_are_refused() -> None:
    vectors, g = planted()
    with pytest.raises(UserError, match="the word 'she' occurs twice in the pairs"):
        debiased(vectors, g, specific=(), pairs=[('she', 'he'), ('man', 'she')])
    debiased(vectors, g, specific=(), pairs=[('she', 'he'), ('lass', 'she')])  # lass is unknown: one pair is left


def test_what_the_direction_does_not_hold_remains() -> None:
    """Jobs of one side share a topic, too: without the direction they still fall into the same two clusters."""
    vectors, _ = planted()
    g = bias_direction(vectors, PAIRS)
    was_biased = biases(vectors, JOBS, g)
    after = debiased(vectors, g, specific=()).vectors
    before_found, after_found = (remaining_bias(each, was_biased, JOBS, count=20) for each in (vectors, after))
    assert before_found.cluster_accuracy == 1
    assert before_found.neighbor_correlation > 0.9
    assert after_found.cluster_accuracy > 0.9
    shuffled = WordVectors(JOBS, np.random.default_rng(3).standard_normal((60, 20)))
    by_chance = remaining_bias(shuffled, was_biased, JOBS, count=20)
    assert by_chance.cluster_accuracy < 0.75


def test_association_is_the_difference_of_means_and_its_share_of_all_partitions() -> None:
    vectors, _ = planted()
    targets = JOBS[1:8:2], (*JOBS[0:8:2], 'unknown')
    attributes = ('she', 'woman'), ('he', 'man')
    found = association(vectors, targets, attributes)
    s = {
        job: np.mean([vectors.similarity(job, word) for word in attributes[0]])
        - np.mean([vectors.similarity(job, word) for word in attributes[1]])
        for job in JOBS[:8]
    }
    first, second = (np.array([s[word] for word in words if word in s]) for words in targets)
    assert found.effect == pytest.approx((first.mean() - second.mean()) / np.std([*first, *second], ddof=1))
    assert found.words == (4, 4, 2, 2)
    sums = [sum(chosen) for chosen in combinations(s.values(), 4)]
    assert found.p == pytest.approx(np.mean([each >= first.sum() - 1e-12 for each in sums]))
    assert found.p == pytest.approx(1 / 70)
    other_way = association(vectors, targets[::-1], attributes)
    assert other_way.effect == pytest.approx(-found.effect)
    assert other_way.p == 1
    many = association(vectors, (JOBS[1::2], JOBS[0::2]), attributes, samples=200)
    assert many.p == pytest.approx(1 / 201)  # none of the random ones


def test_words_that_are_not_there_are_one_message() -> None:
    vectors, _ = planted()
    with pytest.raises(UserError, match='got no pair'):
        bias_direction(vectors, [])
    with pytest.raises(UserError, match=r"'lass' is not in the vocabulary"):
        bias_direction(vectors, [('lass', 'lad')])
    with pytest.raises(UserError, match='have the same vector'):
        bias_direction(vectors, [('he', 'he')])
    with pytest.raises(UserError, match='has 1 of the words job1, x'):
        association(vectors, (('job1', 'x'), JOBS), (('he',), ('she',)))
    alike = WordVectors([*'abcd', 'he', 'she'], [[1, 0]] * 4 + [[1, 1], [0, 1]])
    with pytest.raises(UserError, match='every target is as near to the attributes'):
        association(alike, ('ab', 'cd'), (('he',), ('she',)))

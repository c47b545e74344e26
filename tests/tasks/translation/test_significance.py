"""Differences of luck and real ones: p-values against exact ones, intervals against what is known, changed lines."""

import itertools

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.metrics import make_metrics
from flax_transformer.tasks.translation.significance import changed_lines, paired_tests

FEW = {'resamples': 200, 'trials': 200}


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [' '.join(rng.choice(list('abcdefghij'), 12)) for _ in range(count)]


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [' '.join('x' if rng.random() < share else word for word in line.split()) for line in lines]


def test_a_difference_of_luck_is_not_significant_and_a_real_one_is() -> None:
    references = sentences(150)
    one, alike, worse = noisy(references, 0.2, 1), noisy(references, 0.2, 5), noisy(references, 0.3, 3)
    by_luck = {found.metric: found for found in paired_tests(one, alike, references, **FEW)}
    real = {found.metric: found for found in paired_tests(one, worse, references, **FEW)}
    assert set(by_luck) == {'BLEU', 'chrF2', 'chrF2++', 'TER'}
    for metric in ('BLEU', 'chrF2', 'TER'):
        assert real[metric].p_bootstrap < 0.02
        assert real[metric].p_randomization < 0.02
        assert by_luck[metric].p_bootstrap > 0.05
        assert by_luck[metric].p_randomization > 0.05
    assert real['BLEU'].difference == real['BLEU'].system - real['BLEU'].baseline < 0
    assert real['BLEU'].baseline == pytest.approx(make_metrics()['bleu'].corpus_score(one, [references]).score)
    assert paired_tests(one, alike, references, **FEW) == list(by_luck.values()), 'the same lines, the same numbers'


LINES = sentences(60)


def test_equal_outputs_have_p_1() -> None:
    ours = noisy(LINES, 0.2, 1)
    for found in paired_tests(ours, ours, LINES, **FEW):
        assert (found.difference, found.low, found.high) == (0, 0, 0)
        assert (found.p_bootstrap, found.p_randomization) == (1, 1)
        assert found.verdict('a', 'b').startswith('no difference that this test set can show: +0.00')


def test_p_is_that_of_all_exchanges_of_ten_lines() -> None:
    references = LINES[:10]
    one, other = noisy(references, 0.25, 4), noisy(references, 0.4, 7)
    found = paired_tests(one, other, references, resamples=10, trials=2000)[0]
    bleu, count = make_metrics()['bleu'], 0
    for swaps in itertools.product([False, True], repeat=10):
        a, b = zip(*((y, x) if swap else (x, y) for x, y, swap in zip(one, other, swaps, strict=True)), strict=True)
        difference = bleu.corpus_score(b, [references]).score - bleu.corpus_score(a, [references]).score
        count += abs(difference) >= abs(found.difference) - 1e-9
    exact = count / 1024
    assert 0.01 < exact < 0.3, 'neither sure nor impossible'
    # Five standard errors of 2,000 draws.
    assert found.p_randomization == pytest.approx(exact, abs=5 * (exact * (1 - exact) / 2000) ** 0.5)


@pytest.mark.slow
def test_an_interval_covers_what_more_lines_show() -> None:
    """And is half as wide for four times as many lines."""
    many = sentences(400, seed=3)
    one, other = noisy(many, 0.2, 1), noisy(many, 0.25, 2)
    all_lines = paired_tests(one, other, many, resamples=200, trials=1)[1]
    some = paired_tests(one[:100], other[:100], many[:100], resamples=200, trials=1)[1]
    assert some.low < all_lines.difference < some.high
    assert (some.high - some.low) / (all_lines.high - all_lines.low) == pytest.approx(2, rel=0.25)


def test_the_verdict_names_the_better_system() -> None:
    better, worse = noisy(LINES, 0.1, 1), noisy(LINES, 0.5, 2)
    forth, back = paired_tests(worse, better, LINES, **FEW)[0], paired_tests(better, worse, LINES, **FEW)[0]
    assert forth.verdict('a', 'b').startswith(f'b is better by {forth.difference:.2f} BLEU (95 % interval ')
    assert forth.verdict('a', 'b').endswith('p = 0.005')
    assert back.verdict('b', 'a').startswith(f'b is better by {forth.difference:.2f} BLEU (95 % interval ')
    assert forth.low < forth.difference < forth.high
    assert -back.high > 0


def test_lines_that_changed_most_come_first() -> None:
    references = ['a b c d e f', 'g h i j k l', 'm n o p q r']
    one = ['a b c d e f', 'g h i j k x', 'x']
    other = ['a b c d e f', 'g h i j k l', 'm n o p q r']
    found = changed_lines(one, other, references)
    assert [line.index for line in found] == [2, 1]
    assert found[0].system == make_metrics()['chrf'].sentence_score(other[2], references[2:]).score == 100
    assert changed_lines(one, one, [references, references]) == []


def test_systems_of_unequal_length_are_refused() -> None:
    with pytest.raises(UserError, match='4 translations and 5 references'):
        paired_tests(LINES[:5], LINES[:4], LINES[:5])
    with pytest.raises(UserError, match='got no lines'):
        paired_tests([], [], [])


@pytest.mark.slow
def test_equal_lines_are_drawn_together() -> None:
    lines = [''] * 20_000
    found = paired_tests(lines, [*lines[1:], 'a'], lines, resamples=20, trials=20)
    assert all(one.p_randomization > 0.2 for one in found)

"""Generated opinions and the hundred pairs: balanced, disjoint, the same every time."""

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.classification.config import ClassificationDataConfig
from flax_transformer.tasks.classification.opinions import SIZES, negation_pairs, read_opinions, score_pairs
from flax_transformer.tasks.classification.reading import read_examples


@pytest.fixture(scope='module')
def train() -> tuple[list[str], list[str]]:
    return read_opinions('train')


def test_there_are_a_hundred_pairs_half_of_them_praise() -> None:
    pairs = negation_pairs()
    assert len(pairs) == 100
    assert sum(pair.is_praise for pair in pairs) == 50
    assert len({text for pair in pairs for text in pair[:2]}) == 200
    notes = 'completely lacking in good taste , good service and good ambience'
    assert [pair.labels() for pair in pairs if pair.negated == notes] == [('pos', 'neg')]


def test_pairs_are_counted_where_both_labels_are_right() -> None:
    def first_word(texts):  # right for the plain blame alone
        return ['bad'] * len(texts)

    assert score_pairs(first_word, negative='bad', positive='good') == (0, 50, 50, 100)
    answers = {text: label for pair in negation_pairs() for text, label in zip(pair[:2], pair.labels(), strict=True)}
    assert score_pairs(lambda texts: [answers[text] for text in texts]) == (100, 100, 100, 100)


@pytest.mark.slow
def test_splits_are_disjoint_balanced_and_without_the_pairs(train) -> None:
    splits = {'train': train, **{name: read_opinions(name) for name in ('validation', 'test')}}
    texts = [text for texts, _ in splits.values() for text in texts]
    assert len(set(texts)) == len(texts) == sum(SIZES.values())
    assert not set(texts) & {text for pair in negation_pairs() for text in pair[:2]}
    for name, (_, labels) in splits.items():
        # Three standard deviations of a fair coin.
        assert abs(labels.count('pos') - SIZES[name] / 2) < 1.5 * np.sqrt(SIZES[name])


@pytest.mark.slow
def test_opinions_are_a_source_like_any_other() -> None:
    found = read_examples('opinions:test', ClassificationDataConfig())
    assert (found.texts, found.labels) == read_opinions('test')
    assert found.places[0] == 'opinions:test, example 1'
    with pytest.raises(UserError, match=r'opinions:trian: expected one of train, validation, test\. Did you mean'):
        read_examples('opinions:trian', ClassificationDataConfig())

"""Attributions: exact where the model is linear, the definition elsewhere; and their pictures."""

import io
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

from flax_transformer import Classifier
from flax_transformer.common.errors import UserError
from flax_transformer.plots.classification import plot_attributions, plot_pairs
from flax_transformer.tasks.classification.attributions import attributions, log_odds
from flax_transformer.tasks.classification.config import ClassifierConfig
from flax_transformer.tasks.classification.model import init_params
from flax_transformer.tasks.classification.run import Labels
from flax_transformer.tasks.classification.vocabulary import Vocabulary

LINE = 'the plot is good , good and xyzzy'


@pytest.fixture(scope='module')
def average(tiny_classifier: Path) -> Classifier:
    return Classifier.from_run(tiny_classifier)


@pytest.fixture(scope='module')
def transformer() -> Classifier:
    """Of drawn parameters and three labels."""
    config = ClassifierConfig(
        encoder='transformer', num_classes=3, vocab_size=8, d_model=4, num_heads=2, d_ff=8, dtype='float32'
    )
    generator = np.random.default_rng(0)
    fresh = init_params(config, jax.random.key(0))
    params = jax.tree.map(lambda x: generator.normal(size=x.shape).astype(np.float32), fresh)
    words = Vocabulary(list('abcdef'), lower_case=True)
    return Classifier(config, params, words, Labels(('x', 'y', 'z'), (1, 1, 2)), max_length=16)


def test_an_average_adds_up_its_words_own_scores(average: Classifier) -> None:
    found = attributions(average, LINE, 'pos', method='gradient')
    assert found.tokens == ['the', 'plot', 'is', 'good', ',', 'good', '<unk>', '<unk>']
    bias = dict(zip(average.labels, np.asarray(average.params['output']['bias']), strict=True))
    whole = found.values.sum() + bias['pos'] - bias['neg']
    np.testing.assert_allclose(whole, log_odds(average, [LINE], 'pos')[0], rtol=1e-5)  # float32 sums
    kernel, table = average.params['output']['kernel'], average.params['encoder']['embedding']['table']
    assert average.labels == ('neg', 'pos')
    scores = np.asarray(table) @ np.asarray(kernel[:, 1] - kernel[:, 0])
    np.testing.assert_allclose(found.values, scores[average.ids([LINE])[0]] / 8, rtol=1e-4, atol=1e-6)
    assert found.values[3] == found.values[5] > 0.1
    against = attributions(average, LINE, 'neg', method='gradient').values
    np.testing.assert_allclose(against, -found.values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('name', ['average', 'transformer'])
def test_occlusion_asks_again_without_each_token(name: str, request: pytest.FixtureRequest) -> None:
    classifier, line = request.getfixturevalue(name), {'average': 'a good film', 'transformer': 'a b a d'}[name]
    label = classifier(line).label
    words = line.split()
    rest = [' '.join(words[:i] + words[i + 1 :]) for i in range(len(words))]
    found = attributions(classifier, line, method='occlusion')  # they explain the label that the line is given
    assert found.tokens == words
    whole = log_odds(classifier, [line], label)
    np.testing.assert_allclose(found.values, whole - log_odds(classifier, rest, label), rtol=1e-5)


def test_the_gradient_is_how_the_log_odds_change_as_an_embedding_grows(transformer: Classifier) -> None:
    """Of any encoder and any number of labels; a word that occurs twice has a value for each place."""
    line, step = 'a b c b', 1e-2
    found = attributions(transformer, line, 'y', method='gradient')
    total = {word: found.values[[token == word for token in found.tokens]].sum() for word in 'abc'}
    for number, word in enumerate('abc', start=2):
        moved = []
        for factor in (1 + step, 1 - step):
            table = np.array(transformer.params['encoder']['embedding']['table'])
            table[number] *= factor
            encoder = {**transformer.params['encoder'], 'embedding': {'table': table}}
            other = Classifier(
                transformer.config,
                {**transformer.params, 'encoder': encoder},
                transformer.vocabulary,
                Labels(transformer.labels, (1, 1, 2)),
                max_length=16,
            )
            other._predictor = transformer._predictor  # compiled
            moved.append(log_odds(other, [line], 'y')[0])
        np.testing.assert_allclose((moved[0] - moved[1]) / (2 * step), total[word], rtol=2e-2, atol=1e-3)
    assert found.values[1] != found.values[3]


def test_what_cannot_be_explained_is_refused(average: Classifier) -> None:
    with pytest.raises(UserError, match=r"label='pso': expected one of neg, pos\. Did you mean pos"):
        attributions(average, LINE, 'pso', method='occlusion')
    with pytest.raises(UserError, match='has no token'):
        attributions(average, ' ', 'pos', method='gradient')
    long = attributions(average, 'good ' * 20, 'pos', method='gradient')
    assert len(long.tokens) == len(long.values) == 16  # no further than it is read
    alone = attributions(average, 'good', 'pos', method='occlusion').values
    np.testing.assert_allclose(alone, log_odds(average, ['good'], 'pos') - log_odds(average, [''], 'pos'), rtol=1e-6)


def test_a_picture_of_attributions_has_each_token_number_and_colour() -> None:
    values = np.array([[0.5, -1.0, 0.0], [4.0, 20.0, -0.001]])
    figure = plot_attributions(['not', '$a_', '$b'], values, ['one', 'two'], label='pos', title='costs $5')
    axes, bar = figure.axes
    assert [text.get_text() for text in axes.texts] == ['+0.50', '-1.00', '+0.00', '+4.00', '+20.00', '+0.00']
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.5, -1, 0], [0.2, 1, 0]], atol=1e-4)
    assert [text.get_text() for text in axes.get_yticklabels()] == ['one', 'two']
    assert axes.get_xlabel() == 'token (numbers: log-odds of pos, nats)'
    assert [text.get_text() for text in bar.get_yticklabels()] == ['against pos', '0', 'for pos']
    assert figure.get_facecolor() == (1, 1, 1, 1)  # dark pages, too
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        figure.savefig(io.BytesIO(), format='png', dpi=20)  # `$a_` is no formula


def test_a_picture_of_pairs_has_a_panel_for_each_classifier() -> None:
    found = [np.array([[3.0, -2.0], [-1.0, 4.0]]), np.array([[3.0, 20.0], [-1.0, -4.0]])]
    figure = plot_pairs(found, [True, False], ['one', 'two'], label='pos')
    assert [axes.get_title() for axes in figure.axes] == ['one', 'two']
    for axes, points in zip(figure.axes, found, strict=True):
        praise, blame = (each.get_offsets() for each in axes.collections[-2:])
        np.testing.assert_allclose([praise[0], blame[0]], points)
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_xlim()[1] > 20
    assert figure.axes[0].get_ylabel() == 'negated sentence\n(log-odds of pos, nats)'
    assert figure.get_facecolor() == (1, 1, 1, 1)

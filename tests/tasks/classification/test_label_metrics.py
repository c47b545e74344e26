"""The scores of a classifier, against scikit-learn's and against sums by hand."""

import numpy as np
import pytest

from flax_transformer.tasks.classification.metrics import (
    calibration_error,
    confusion_matrix,
    fitted_temperature,
    macro_f1,
    scores,
)
from flax_transformer.tasks.evaluation import bootstrap_interval

# Twelve texts of three classes, and what scikit-learn 1.9.1 says of them.
PROBABILITIES = np.array(
    [
        [0.179, 0.608, 0.213],
        [0.025, 0.09, 0.885],
        [0.027, 0.827, 0.146],
        [0.131, 0.674, 0.195],
        [0.223, 0.293, 0.484],
        [0.155, 0.37, 0.475],
        [0.529, 0.421, 0.05],
        [0.248, 0.127, 0.625],
        [0.115, 0.575, 0.31],
        [0.662, 0.312, 0.026],
        [0.375, 0.583, 0.042],
        [0.279, 0.148, 0.573],
    ]
)
LABELS = np.array([1, 2, 1, 0, 0, 2, 0, 2, 1, 0, 0, 0])
SCIKIT_LEARN = {
    'accuracy_score': 0.6666666666666666,
    'f1_score': 0.6666666666666666,  # average='macro'
    'confusion_matrix': [[2, 2, 2], [0, 3, 0], [0, 0, 3]],
    'log_loss': 0.7847748950809258,
}


def test_scores_equal_those_of_scikit_learn() -> None:
    found = scores(PROBABILITIES, LABELS, ('a', 'b', 'c'))
    assert found.accuracy == pytest.approx(SCIKIT_LEARN['accuracy_score'])
    assert found.macro_f1 == pytest.approx(SCIKIT_LEARN['f1_score'])
    assert [list(row) for row in found.confusion] == SCIKIT_LEARN['confusion_matrix']
    assert found.nll == pytest.approx(SCIKIT_LEARN['log_loss'])
    assert (found.num_texts, found.labels) == (12, ('a', 'b', 'c'))


def test_a_class_that_is_neither_true_nor_given_does_not_count_in_f1() -> None:
    # Right 2 of 3; F1 of class 0: 2 * 1 / (1 + 2), of class 1: 2 * 1 / (2 + 1); class 2 is absent.
    confusion = confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), 3)
    assert macro_f1(confusion) == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_the_calibration_error_is_the_mean_gap_of_the_bins() -> None:
    # Two bins over (0.5, 1]: 0.6 and 0.7, one of two right; 0.8, 0.9 and 1.0, all right.
    probabilities = np.array([[0.6, 0.4], [0.3, 0.7], [0.8, 0.2], [0.1, 0.9], [1.0, 0.0]])
    labels = np.array([0, 0, 0, 1, 0])
    gaps = 2 * abs(0.5 - 0.65) + 3 * abs(1 - 0.9)
    assert calibration_error(probabilities, labels, bins=4) == pytest.approx(gaps / 5)
    assert calibration_error(np.eye(2), np.array([0, 1])) == 0


@pytest.mark.parametrize('temperature', [0.4, 1.0, 3.0])
def test_the_temperature_undoes_what_logits_were_multiplied_by(temperature: float) -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(4000, 5))
    softmax = lambda z: np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = (softmax(logits).cumsum(axis=1) < generator.random((4000, 1))).sum(axis=1)
    # Its standard error from 4,000 texts is some 3 %.
    assert fitted_temperature(softmax(logits * temperature), labels) == pytest.approx(temperature, rel=0.1)
    few = fitted_temperature(np.array([[0.99, 0.01]] * 18), np.zeros(18, int))
    assert 1 / (1 + (0.01 / 0.99) ** (1 / few)) == pytest.approx(19 / 20)  # as if each label had come once more


def test_the_bootstrap_interval_is_that_of_a_binomial() -> None:
    values = np.repeat([1.0, 0.0], [800, 200])
    deviation = np.sqrt(0.8 * 0.2 / 1000)
    low, high = bootstrap_interval(values)
    # The ends of 2,000 resamples differ from the limit by some 4 % of a deviation (normal approximation).
    assert (low, high) == pytest.approx((0.8 - 1.96 * deviation, 0.8 + 1.96 * deviation), abs=0.2 * deviation)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval(np.ones(9)) == (1, 1)
    assert bootstrap_interval(values, np.full(1000, 4)) == pytest.approx((low / 4, high / 4))


def test_a_class_that_the_classifier_does_not_know_is_wrong_and_shown() -> None:
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = scores(probabilities, np.array([0, 2]), ('a', 'b', 'new'))
    assert found.accuracy == 0.5
    assert found.confusion == ((1, 0, 0), (0, 0, 0), (0, 1, 0))
    assert found.nll == pytest.approx((-np.log(0.9) - np.log(np.finfo(np.float32).tiny)) / 2)

"""How good a classifier is: pure functions of its probabilities and the labels."""

from dataclasses import dataclass

import numpy as np

from flax_transformer.tasks.evaluation import bootstrap_interval

BINS = 15  # bins of the calibration error
_TEMPERATURES = (0.05, 20.0)  # range of the search


@dataclass(frozen=True)
class Scores:
    accuracy: float  # share of texts labeled right, 0 to 1
    accuracy_low: float  # 95 % interval of the accuracy, by the bootstrap
    accuracy_high: float
    macro_f1: float  # mean of the F1 of each label, 0 to 1; a label neither given nor true is left out
    calibration_error: float  # mean distance between confidence and accuracy, 0 to 1
    nll: float  # negative log-likelihood of the true label, in nats a text
    num_texts: int
    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]  # [true label][label given]: texts


def scores(probabilities: np.ndarray, labels: np.ndarray, names: tuple[str, ...]) -> Scores:
    """All scores of at least one text.

    Args:
      probabilities: [N, C].
      labels: [N] true classes; a class of C or more, of which the classifier knows nothing, is always wrong.
      names: of all classes, the C first.
    """
    given = probabilities.argmax(axis=1)
    low, high = bootstrap_interval(given == labels)
    confusion = confusion_matrix(given, labels, len(names))
    return Scores(
        accuracy=accuracy(probabilities, labels),
        accuracy_low=low,
        accuracy_high=high,
        macro_f1=macro_f1(confusion),
        calibration_error=calibration_error(probabilities, labels),
        # A text costs at most 87 nats, the logarithm of the smallest float32.
        nll=float(-np.log(np.maximum(probability_of(probabilities, labels), np.finfo(np.float32).tiny)).mean()),
        num_texts=len(labels),
        labels=names,
        confusion=tuple(map(tuple, confusion.tolist())),
    )


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float((probabilities.argmax(axis=1) == labels).mean())


def confusion_matrix(given: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """[C, C] int: texts of each true class (row) that were given each class (column)."""
    return np.bincount(labels * num_classes + given, minlength=num_classes**2).reshape(num_classes, num_classes)


def macro_f1(confusion: np.ndarray) -> float:
    """The mean F1 of the classes that are true or given at least once, each class weighing the same."""
    right = np.diag(confusion)
    total = confusion.sum(axis=0) + confusion.sum(axis=1)
    return float((2 * right[total > 0] / total[total > 0]).mean())


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = BINS) -> float:
    """The expected calibration error (Guo et al. 2017, eq. 3), with bins of equal width over (0, 1]."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    numbers = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(numbers, weights=right - confidence, minlength=bins)  # each bin's gap times its texts
    return float(np.abs(gaps).sum() / len(labels))


def fitted_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The number by which to divide logits so that their softmax fits the labels best (Guo et al. 2017, section 4.2).

    Takes probabilities [N, C], the softmax of the logits, and labels [N] below C. Each label also gets the weight of
    about one text (Platt 1999), so that the number stays finite where all answers are right.
    """
    logits = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny)).astype(np.float64)  # up to a constant per row
    count, num_classes = logits.shape
    right = logits[np.arange(count), labels].sum()
    wanted = (count * right + logits.sum()) / (count + num_classes)
    low, high = np.log(_TEMPERATURES)
    for _ in range(24):  # the sum of the logits that a softmax expects falls as the temperature rises
        middle = (low + high) / 2
        scaled = np.exp((logits - logits.max(axis=1, keepdims=True)) / np.exp(middle))
        expected = (scaled * logits).sum(axis=1) @ (1 / scaled.sum(axis=1))
        if expected > wanted:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def probability_of(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[N] float64: the probability of each true class; 0 for a class that has none."""
    num_classes = probabilities.shape[1]
    known = labels < num_classes
    rows = np.arange(len(labels))
    return np.where(known, probabilities[rows, np.where(known, labels, 0)].astype(np.float64), 0.0)

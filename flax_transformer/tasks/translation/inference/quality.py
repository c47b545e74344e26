"""How good a translation probably is, by how sure the model was of its pieces.

Two logistic regressions, fitted on translations of sentences with references: the expected chrF2 of a sentence, as a
share (a fractional response: Papke and Wooldridge 1996), and the probability that a word is one of the reference's.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, read_limited, write_whole
from flax_transformer.common.json_text import parse_json

from .result import Translation, words_of

FILE = 'quality.json'  # its name in a run directory
FORMAT = 2
FEWEST = 50  # sentences to calibrate on
_RIDGE = 1.0  # shrinks weights of standardized features; the sums are over all examples
_DIGITS = 4

_LEAST = -30.0  # nats; what the search forbids is far below


def sentence_features(gains: Sequence[float], num_source: int) -> tuple[float, ...]:
    """What is known of a translation, from its tokens' log-probabilities in nats and its source's number of tokens.

    Entropy, attention coverage and the n best changed no correlation with chrF by more than 0.004, on two test sets.
    """
    gains = np.maximum(gains, _LEAST)
    mean = gains.mean()
    ratio = np.log(len(gains) / max(num_source, 1))
    return mean, np.exp(mean), np.exp(gains).mean(), gains.min(), np.log(len(gains)), ratio, abs(ratio)


def word_features(translation: Translation) -> list[tuple[float, ...]]:
    """What is known of each word of a translation."""
    positions: dict[int, list[int]] = {}
    pieces = translation.tokens if translation.truncated else translation.tokens[:-1]  # EOS belongs to no word
    for position, word in enumerate(words_of(pieces), start=1):
        if word is not None:
            positions.setdefault(word, []).append(position)
    gains = np.maximum(translation.token_log_probs, _LEAST)
    sentence = np.exp(gains.mean())
    probabilities = np.exp([0.0, *gains, 0.0])
    rows = []
    for _, own in sorted(positions.items()):
        inside = probabilities[own[0] : own[-1] + 1]
        neighbors = probabilities[own[-1] + 1], probabilities[own[0] - 1]
        rows.append((inside.prod(), inside.min(), np.log(len(own)), sentence, *neighbors))
    return rows


class Regression(NamedTuple):
    """A logistic regression."""

    weights: tuple[float, ...]  # one for each of F features
    bias: float

    @classmethod
    def fitted(cls, features: np.ndarray, targets: np.ndarray) -> Self:
        """The regression of targets [N] from 0 to 1 on features [N, F], by Newton's method."""
        means = features.mean(axis=0)
        deviations = np.maximum(features.std(axis=0), 1e-6)
        inputs = np.c_[(features - means) / deviations, np.ones(len(features))]
        ridge = np.diag([_RIDGE] * features.shape[1] + [1e-3])
        weights = np.zeros(len(ridge))
        for _ in range(30):
            expected = _sigmoid(inputs @ weights)
            slope = inputs.T @ (expected - targets) + ridge @ weights
            curvature = (inputs * (expected * (1 - expected))[:, None]).T @ inputs + ridge
            weights -= np.linalg.solve(curvature, slope)
        unscaled = weights[:-1] / deviations
        return cls(tuple(unscaled.tolist()), float(weights[-1] - unscaled @ means))

    def __call__(self, features: Sequence[Sequence[float]]) -> np.ndarray:
        """The expectations [N] of features [N, F]."""
        return _sigmoid(np.asarray(features, np.float64) @ self.weights + self.bias)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))


@dataclass(frozen=True)
class Calibration:
    """Computes `quality` and `word_quality` for one model, and any search."""

    sentence: Regression
    word: Regression
    num_sentences: int  # it was fitted on so many

    @classmethod
    def fitted(cls, translations: Sequence[Translation], num_source: Sequence[int], references: Sequence[str]) -> Self:
        """Fits both to translations of sources of `num_source` tokens. Raises UserError for too few."""
        from sacrebleu.metrics import CHRF

        metric = CHRF()
        sentences = []
        scores = []
        words = []
        are_right = []

        for translation, count, reference in zip(translations, num_source, references, strict=True):
            if translation.split or not translation.token_log_probs:
                continue
            sentences.append(sentence_features(translation.token_log_probs, count))
            scores.append(metric.sentence_score(translation.text, [reference]).score / 100)

            features = word_features(translation)
            written = translation.text.split()
            if len(features) != len(written):
                continue
            words += features
            left = Counter(reference.split())
            for word in written:
                left[word] -= 1
                are_right.append(left[word] >= 0)

        if len(sentences) < FEWEST:
            raise UserError(f'{len(sentences)} sentences to calibrate on; expected at least {FEWEST}')
        if not words:
            raise UserError('the translations to calibrate on have no words')
        sentence = Regression.fitted(np.array(sentences), np.array(scores))
        word = Regression.fitted(np.array(words), np.array(are_right, np.float64))
        return cls(sentence, word, len(sentences))

    def judged(self, translation: Translation, num_source: int) -> Translation:
        """A translation, and its n best, with their quality."""
        translation = replace(translation, n_best=tuple(self.judged(other, num_source) for other in translation.n_best))
        gains = translation.token_log_probs
        if not gains:
            return translation
        (quality,) = self.sentence([sentence_features(gains, num_source)])
        words = word_features(translation)
        word_quality = tuple(np.round(self.word(words), _DIGITS).tolist()) if words else ()
        return replace(translation, quality=round(float(quality), _DIGITS), word_quality=word_quality)

    def write(self, run: Path) -> None:
        parts = {'sentence': self.sentence._asdict(), 'word': self.word._asdict()}
        content = {'format': FORMAT, 'sentences': self.num_sentences, **parts}
        write_whole(run / FILE, json.dumps(content, indent=1) + '\n')

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """A run's calibration; None: it has none. Raises UserError if it is damaged, or a later version's."""
        file = run / FILE
        if not file.exists():
            return None
        with naming_damage(file, 'calibrate the run again, or remove it'):
            content = dict(parse_json(read_limited(file)))
            if content['format'] != FORMAT:
                raise UserError(f'{file} has format {content["format"]!r}, expected {FORMAT}; calibrate the run again')
            return cls(_read(content['sentence'], 7), _read(content['word'], 6), int(content['sentences']))


def _read(parts: Any, count: int) -> Regression:
    weights = np.array(parts['weights'], np.float64)
    bias = float(parts['bias'])
    if weights.shape != (count,) or not np.isfinite([*weights, bias]).all():
        raise ValueError(f'expected {count} weights and a bias')
    return Regression(tuple(weights.tolist()), bias)

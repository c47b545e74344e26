"""Which tokens of a text a classifier's answer comes from.

Explains the log-odds of a label, log p / (1 - p): 0 if it is as probable as all others together. With two
labels it is a linear function of what the encoder hands on, and the two labels' log-odds differ in their sign alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.devices.devices import NO_MESH
from flax_transformer.tasks.classification.classifier import Classifier, slots_for
from flax_transformer.tasks.classification.config import ClassifierConfig
from flax_transformer.tasks.classification.model import ClassifierModel
from flax_transformer.tasks.classification.vocabulary import PAD_ID, padded


class Attributions(NamedTuple):
    """What each of S tokens adds to the log-odds of a label."""

    tokens: list[str]  # [S], as the classifier sees them: a long text is cut
    values: np.ndarray  # [S] float32, in nats; above 0 for the label, below 0 against it


def log_odds(classifier: Classifier, lines: Sequence[str], label: str) -> np.ndarray:
    """[N] float64: the log-odds of a label for N lines, in nats. Raises UserError for a label that is not known."""
    return _log_odds(classifier.probabilities(lines), _number_of(label, classifier))


def attributions(
    classifier: Classifier, line: str, label: str | None = None, *, method: Literal['occlusion', 'gradient']
) -> Attributions:
    """What each token of a line adds to the log-odds of a label, by default of the one that the line is given.

    Args:
      classifier: with any encoder.
      line: a text with at least one token.
      label: one of `classifier.labels`.
      method: occlusion: how far the log-odds fall if this token is left out. gradient: the product of the token's
        embedding and the gradient at it, all that the token adds if the model is linear. With `average` and two labels
        it is: the values and the bias sum to the log-odds, and each is the token's score over the number of tokens.

    Raises UserError for a label or method that is not known, and for a line without a token.
    """
    (ids,) = classifier.ids([line])
    if not ids:
        raise UserError(f'{line!r} has no token; expected a text with something to explain')
    number = _number_of(classifier(line).label if label is None else label, classifier)
    methods = {'occlusion': _by_occlusion, 'gradient': _by_gradient}
    if method not in methods:
        raise UserError(f'method={method!r}: expected one of {", ".join(methods)}.{nearest(method, methods)}')
    return Attributions(classifier.vocabulary.tokens(ids), methods[method](classifier, ids, number))


def _number_of(label: str, classifier: Classifier) -> int:
    names = classifier.labels
    if label not in names:
        raise UserError(f'label={label!r}: expected one of {", ".join(names)}.{nearest(label, names)}')
    return names.index(label)


def _log_odds(probabilities: np.ndarray, number: int) -> np.ndarray:
    """[N] of probabilities [N, C]. Sums the other labels' rather than take 1 - p, which is 0 where p is almost 1."""
    own, others = probabilities[:, number], np.delete(probabilities, number, axis=1).sum(axis=1, dtype=np.float64)
    least = np.finfo(np.float32).tiny
    return np.log(np.maximum(own, least).astype(np.float64)) - np.log(np.maximum(others, least))


def _by_occlusion(classifier: Classifier, ids: Sequence[int], number: int) -> np.ndarray:
    """[S] float32: the log-odds of the whole line less those without each token."""
    without = [[*ids[:i], *ids[i + 1 :]] for i in range(len(ids))]
    whole, *rest = _log_odds(classifier.probabilities_of_ids([ids, *without]), number)
    return (whole - np.array(rest)).astype(np.float32)


def _by_gradient(classifier: Classifier, ids: Sequence[int], number: int) -> np.ndarray:
    """[S] float32: gradient times embedding. Each token gets a row of the table to itself, so the gradient of the table
    is that of the tokens even where a word occurs twice."""
    slots = slots_for(len(ids))
    params = classifier.params
    table = np.asarray(params['encoder']['embedding']['table'])
    rows = np.concatenate([table[[PAD_ID]], table[padded([ids], slots)[0]]])
    row_numbers = padded([range(1, len(ids) + 1)], slots)
    config = replace(classifier.config, vocab_size=slots + 1)
    with jax.set_mesh(NO_MESH):
        products = _gradient_times_rows(rows, params, row_numbers, number=number, config=config)
    return np.asarray(products)[1 : len(ids) + 1]


@partial(jax.jit, static_argnames=('number', 'config'))
def _gradient_times_rows(
    rows: jax.Array, params: Any, tokens: jax.Array, *, number: int, config: ClassifierConfig
) -> jax.Array:
    """[V] of a table `rows` [V, D]: how the log-odds change with each row, times the row."""

    def explained(rows: jax.Array) -> jax.Array:
        encoder = {**params['encoder'], 'embedding': {'table': rows}}
        logits = ClassifierModel(config).apply({'params': {**params, 'encoder': encoder}}, tokens)[0]
        others = jnp.where(jnp.arange(config.num_classes) == number, -jnp.inf, logits)
        return logits[number] - jax.nn.logsumexp(others)

    return (jax.grad(explained)(rows) * rows).sum(axis=1)

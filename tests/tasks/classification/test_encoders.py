"""The encoders against NumPy; padding and neighbors change nothing."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.classification.config import ClassifierConfig
from flax_transformer.tasks.classification.model import ClassifierModel, init_params

SIZES = {'vocab_size': 12, 'd_model': 4, 'num_classes': 3, 'widths': (2, 3), 'num_maps': 5, 'hidden_size': 3}
HEADS = {'num_heads': 2, 'd_ff': 8}
ROWS = np.array([[5, 3, 7, 2, 0, 0], [4, 0, 0, 0, 0, 0], [2, 3, 4, 5, 6, 7], [0] * 6], np.int32)


def make(encoder: str, **fields: Any) -> tuple[ClassifierModel, Any]:
    config = ClassifierConfig(encoder=encoder, num_layers=1, **SIZES | HEADS | fields)
    generator = np.random.default_rng(0)
    drawn = lambda x: generator.normal(size=x.shape).astype(np.float32)
    return ClassifierModel(config), jax.tree.map(drawn, init_params(config, jax.random.key(0)))  # biases, too


def logits(model: ClassifierModel, params: Any, tokens: np.ndarray) -> np.ndarray:
    """Checks that the gradients are finite, too."""

    def total(params: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = model.apply({'params': params}, tokens)
        return found.sum(), found

    grads, found = jax.jit(jax.grad(total, has_aux=True))(params, tokens)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads))
    return np.asarray(found)


@pytest.mark.parametrize('encoder', ['recurrent', 'transformer'])
@pytest.mark.slow_cases('recurrent')
def test_padding_changes_nothing(encoder: str) -> None:
    """For the average and the convolution see below: NumPy knows no padding."""
    model, params = make(encoder, pool='max')
    found, padded = logits(model, params, ROWS), logits(model, params, np.pad(ROWS, ((0, 0), (0, 5))))
    np.testing.assert_allclose(found, padded, atol=1e-5)  # sums in another order


def test_the_average_is_the_mean_of_the_embeddings() -> None:
    model, params = make('average')
    table, output = params['encoder']['embedding']['table'], params['output']
    for row, found in zip(ROWS, logits(model, params, ROWS), strict=True):
        mean = table[row[row > 0]].mean(axis=0) if row.any() else np.zeros(4)
        np.testing.assert_allclose(found, mean @ output['kernel'] + output['bias'], atol=1e-5)


def test_a_linear_classifier_adds_up_the_weights_of_words_and_of_sequences() -> None:
    """Sequences of characters, half as long as words, count from the end of the table."""
    model, params = make('linear')
    table, bias = params['output']['table'], params['output']['bias']
    rows = np.array([[5, 3, 7, 2, -1, -4], [4, -12, 0, 0, 0, 0], [2, 3, 4, 5, 6, 7], [0] * 6], np.int32)
    for row, found in zip(rows, logits(model, params, rows), strict=True):
        words, sequences = table[row[row > 0]], table[row[row < 0]]
        expected = bias + words.sum(axis=0) / max(len(words), 1) ** 0.5
        expected += 0.5 * sequences.sum(axis=0) / max(len(sequences), 1) ** 0.5
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_convolution_takes_the_highest_response_of_each_filter() -> None:
    model, params = make('convolution')
    encoder, output = params['encoder'], params['output']
    for row, found in zip(ROWS, logits(model, params, ROWS), strict=True):
        vectors = [encoder['embedding']['table'][i] for i in row if i]
        features = []
        for width in SIZES['widths']:
            edge = [np.zeros(4)] * (width - 1)
            padded = [*edge, *vectors, *edge]  # filters also see the edges of a text
            windows = [np.concatenate(padded[i : i + width]) for i in range(len(vectors) + width - 1)]
            filters = encoder[f'width_{width}']
            responses = [np.maximum(window @ filters['kernel'] + filters['bias'], 0) for window in windows]
            features.append(np.max(responses, axis=0) if vectors else np.zeros(5))
        expected = np.concatenate(features) @ output['kernel'] + output['bias']
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_word_dropout_replaces_its_share_of_words_by_unk() -> None:
    """The model, of one word a text, then answers as it does for unk."""
    model, params = make('average', dropout_rate=0.0, encoder_dropout_rate=0.0, word_dropout_rate=0.25)
    words = np.full((4000, 1), 5, np.int32)
    rngs = {'dropout': jax.random.key(0)}
    apply = jax.jit(partial(model.apply, deterministic=False))
    found = np.asarray(apply({'params': params}, words, rngs=rngs))
    word, unk = logits(model, params, np.array([[5], [1]], np.int32))
    is_unk = np.isclose(found, unk).all(axis=1)
    assert (is_unk | np.isclose(found, word).all(axis=1)).all()
    assert 0.22 < is_unk.mean() < 0.28


def test_an_unknown_word_begins_as_zero_and_known_ones_do_not() -> None:
    table = init_params(ClassifierConfig(vocab_size=5, d_model=4), jax.random.key(0))['encoder']['embedding']['table']
    assert (np.abs(table).sum(axis=1) > 0).tolist() == [True, False, True, True, True]


@pytest.mark.parametrize(
    ('fields', 'says'),
    [
        ({'encoder': 'convolution', 'widths': (3, 3)}, r'widths=\(3, 3\): expected .* each once'),
        ({'encoder': 'transformer', 'd_model': 31, 'num_heads': 1}, 'd_model=31: .* even multiple of num_heads=1'),
    ],
)
def test_sizes_that_no_encoder_can_have_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        ClassifierConfig(**fields)

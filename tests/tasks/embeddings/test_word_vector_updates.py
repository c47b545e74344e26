"""The updates of a block are the gradients of its loss."""

import heapq
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from flax_transformer.tasks.embeddings.blocks import Blocks, PathBlocks, paths_of
from flax_transformer.tasks.embeddings.config import EmbeddingsModelConfig
from flax_transformer.tasks.embeddings.glove import Pairs, glove_vectors, sums_of_block, update_block
from flax_transformer.tasks.embeddings.word2vec import (
    apply_updates,
    cbow,
    cbow_tree,
    logistic,
    neighbors,
    skip_gram,
    skip_gram_tree,
    tree_logistic,
)

CONFIG = EmbeddingsModelConfig(vocab_size=9, d_model=5, window=2, negatives=3)
BLOCK = Blocks(
    np.array([0, 1, 2, 3, 4, 2, 1, 0], np.int32),
    np.array([0, 1, 2, 0], np.int8),
    np.array([2, 2, 1, 0], np.int8),
    np.array([6, 2, 8], np.int32),
)


def tables(width: int = 5, scale: float = 0.5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: (scale * rng.normal(size=(9, width))).astype(np.float32) for name in ('input', 'output')}


def applied(update: Any, params: Any, block: Any) -> Any:
    """The tables after the update of a block at rate 0.1, and its sums."""

    def all_of_it(params: Any, block: Any) -> Any:
        updates, sums = update(params, block, 0.1, CONFIG)
        return apply_updates(params, updates), sums

    return jax.device_get(jax.jit(all_of_it)(params, block))


def loss_by_definition(params: Any, method: str) -> jax.Array:
    """Mikolov et al. 2013b, equation 4; each negative of the block stands for negatives / 3 draws."""
    means, predicted, signs, weights = [], [], [], []
    for i in range(4):
        around = [*range(2 + i - int(BLOCK.left[i]), 2 + i), *range(3 + i, 3 + i + int(BLOCK.right[i]))]
        word, around = int(BLOCK.words[2 + i]), BLOCK.words[around].tolist()
        inputs = [[word]] * len(around) if method == 'skip_gram' else [around] * bool(around)
        for vectors, true in zip(inputs, around if method == 'skip_gram' else [word], strict=bool(inputs)):
            means += [np.eye(9, dtype=np.float32)[vectors].mean(axis=0)] * 4
            predicted += [true, *BLOCK.negatives.tolist()]
            signs += [1, -1, -1, -1]
            weights += [1, *[CONFIG.negatives / 3] * 3]
    scores = ((np.array(means) @ params['input']) * params['output'][np.array(predicted)]).sum(axis=1)
    return -(np.array(weights, np.float32) * jax.nn.log_sigmoid(np.array(signs, np.float32) * scores)).sum()


@pytest.mark.parametrize('method', ['skip_gram', 'cbow'])
def test_a_block_goes_down_the_gradient_of_its_loss(method: str) -> None:
    params = tables()
    loss, gradients = jax.jit(jax.value_and_grad(partial(loss_by_definition, method=method)))(params)
    changed, sums = applied(skip_gram if method == 'skip_gram' else cbow, params, BLOCK)
    # Sums in another order.
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    close(sums['loss'], loss)
    assert sums['words'] == 3
    assert sums['predictions'] == (8 if method == 'skip_gram' else 3)
    close(changed['output'], params['output'] - 0.1 * gradients['output'])
    if method == 'skip_gram':
        close(changed['input'], params['input'] - 0.1 * gradients['input'])


def test_cbow_gives_each_neighbor_the_whole_gradient_of_the_mean() -> None:
    params = tables()
    block = BLOCK._replace(left=np.array([0, 0, 2, 0], np.int8), right=np.zeros(4, np.int8))
    changed, _ = applied(cbow, params, block)
    delta = changed['input'] - params['input']
    # The third word of the block has the two before it as neighbors, words 2 and 3.
    np.testing.assert_allclose(delta[2], delta[3], rtol=1e-4, atol=1e-6)
    assert sorted(np.flatnonzero(delta.any(axis=1)).tolist()) == [2, 3]
    mean, sigmoid = (params['input'][2] + params['input'][3]) / 2, lambda x: 1 / (1 + np.exp(-x))
    of_mean = -sigmoid(-mean @ params['output'][4]) * params['output'][4]
    of_negatives = sigmoid(params['output'][BLOCK.negatives] @ mean) @ params['output'][BLOCK.negatives]
    np.testing.assert_allclose(delta[2], -0.1 * (of_mean + of_negatives * CONFIG.negatives / 3), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize('update', [skip_gram_tree, cbow_tree])
def test_hierarchical_softmax_goes_down_the_gradient_of_its_loss(update: Any) -> None:
    """Mikolov et al. 2013b, equation 3: the product of the branches of a path."""
    params = tables()
    paths = paths_of(np.array([9, 7, 5, 4, 3, 3, 2, 1, 1]))
    words = BLOCK.words[2:6]
    block = PathBlocks(BLOCK.words, BLOCK.left, BLOCK.right, paths.nodes[words], paths.signs[words])
    near = np.asarray(jax.jit(neighbors, static_argnums=1)(BLOCK, 2))
    log = jax.nn.log_sigmoid

    def by_definition(params: Any, inputs: Any) -> jax.Array:
        total = 0.0
        for i in np.flatnonzero(near.any(axis=1)):
            is_node = block.signs[i] >= 0
            nodes = params['output'][block.nodes[i][is_node]]
            directions = 2.0 * block.signs[i][is_node].astype(np.float32) - 1.0
            mean = near[i] / near[i].sum()
            vectors = inputs[np.flatnonzero(near[i])] if update is skip_gram_tree else (mean @ inputs)[None, :]
            total -= log(directions[None, :] * (vectors @ nodes.T)).sum()
        return total

    inputs = params['input'][BLOCK.words]
    loss, (gradients, of_inputs) = jax.jit(jax.value_and_grad(by_definition, argnums=(0, 1)))(params, inputs)
    changed, sums = applied(update, params, block)
    # Sums in another order.
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    close(sums['loss'], loss)
    assert (sums['words'], sums['predictions']) == (3, 8 if update is skip_gram_tree else 3)
    close(changed['output'], params['output'] - 0.1 * gradients['output'])
    if update is skip_gram_tree:
        np.add.at(params['input'], BLOCK.words, -0.1 * np.asarray(of_inputs))
        close(changed['input'], params['input'])


def test_the_tree_is_the_shortest_and_its_paths_differ() -> None:
    counts = np.sort(np.random.default_rng(0).zipf(1.5, 50))[::-1].clip(max=10_000)
    paths = paths_of(counts)
    lengths = (paths.signs >= 0).sum(axis=1)
    heap, total = counts.tolist(), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        heapq.heappush(heap, made := heapq.heappop(heap) + heapq.heappop(heap))
        total += made
    assert (lengths * counts).sum() == total
    ways = [
        tuple(zip(n[:k], s[:k], strict=True)) for n, s, k in zip(*map(np.ndarray.tolist, paths), lengths, strict=True)
    ]
    assert len(set(ways)) == 50
    assert {way[0][0] for way in ways} == {48}  # the root
    assert {node for way in ways for node, _ in way} == set(range(49))
    assert paths_of(np.array([5, 2, 1])).nodes.tolist() == [[1, 0], [1, 0], [1, 0]]
    assert paths_of(np.array([5, 2, 1])).signs.tolist() == [[0, -1], [1, 0], [1, 1]]


def test_scores_beyond_word2vecs_range_saturate_and_in_a_tree_change_nothing() -> None:
    """As g / alpha of word2vec.c."""
    given = np.float32([-7, 7, -7, 7, -5, 5]), np.float32([1, 0, 0, 1, 1, 0]), np.ones(6, np.float32)
    gradient, loss = jax.jit(logistic)(*given)
    np.testing.assert_allclose(gradient, [1, -1, 0, 0, 0.9933, -0.9933], atol=1e-4)
    in_tree, same = jax.jit(tree_logistic)(*given)
    np.testing.assert_allclose(in_tree, [0, 0, 0, 0, 0.9933, -0.9933], atol=1e-4)
    assert loss == same > 14


@pytest.mark.parametrize('update', [skip_gram, cbow])
def test_what_is_not_finite_changes_nothing(update: Any) -> None:
    broken = tables()
    for table in broken.values():
        table[2, 0] = np.nan
    changed, sums = applied(update, broken, BLOCK)
    assert np.isnan(sums['loss'])
    jax.tree.map(np.testing.assert_array_equal, changed, broken)


def test_glove_goes_down_the_gradient_scaled_by_adagrad() -> None:
    params = tables(width=6)
    pairs = Pairs(np.int32([0, 3, 7, 0]), np.int32([1, 4, 7, 0]), np.float32([2, 300, 9, 0]))

    def by_definition(params: Any) -> jax.Array:
        """Pennington et al. 2014, equation 8, for both orders of a pair; X has one entry for a word with itself."""
        w, v = params['input'][np.array([0, 1, 3, 4, 7])], params['output'][np.array([1, 0, 4, 3, 7])]
        count = np.array([2, 2, 300, 300, 9], np.float32)
        error = (w[:, :-1] * v[:, :-1]).sum(axis=1) + w[:, -1] + v[:, -1] - np.log(count)
        return 0.5 * (np.minimum(count / 100, 1) ** 0.75 * error**2).sum()

    loss, gradients = jax.jit(jax.value_and_grad(by_definition))(params)
    ones = jax.tree.map(np.ones_like, params)
    step = partial(update_block, rate=0.05, x_max=100.0, share=lambda rows: rows)
    changed, squares, sums = jax.jit(step)(params, ones, pairs)
    np.testing.assert_allclose(sums['loss'], loss, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(sums_of_block)(params, pairs, 100.0)['loss'], loss, rtol=1e-5)
    assert sums['pairs'] == 5
    for name, gradient in gradients.items():
        gradient = np.asarray(gradient)
        expected = params[name] - 0.05 * gradient / np.sqrt(1 + gradient**2)
        np.testing.assert_allclose(changed[name], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(squares[name], 1 + gradient**2, rtol=1e-5)


def test_what_all_vectors_of_glove_share_makes_no_difference() -> None:
    """Neither to the loss, where biases make up for it, nor to the vectors that are used."""
    params, counts = tables(width=6), np.array([90, 30, 10, 9, 8, 7, 6, 5, 4])
    shared = np.arange(5, dtype=np.float32)
    moved = jax.tree.map(np.copy, params)
    moved['input'][:, :-1] += shared
    moved['output'][:, -1] -= params['output'][:, :-1] @ shared
    pairs = Pairs(np.array([0, 3, 0], np.int32), np.array([1, 4, 8], np.int32), np.array([2.0, 30.0, 0.1], np.float32))
    losses = [jax.jit(sums_of_block)(each, pairs, 10.0)['loss'] for each in (params, moved)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    vectors = glove_vectors(params, counts)
    np.testing.assert_allclose(glove_vectors(moved, counts), vectors, atol=1e-4)
    np.testing.assert_allclose(counts**0.75 @ vectors, 0, atol=1e-4)
    summed = (params['input'] + params['output'])[:9, :-1]
    np.testing.assert_allclose(vectors - vectors[0], summed - summed[0], atol=1e-5)

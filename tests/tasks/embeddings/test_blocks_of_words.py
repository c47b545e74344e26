"""Blocks of words and of pairs: neighbors within lines, draws by frequency, an order that resumes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from flax_transformer.tasks.embeddings.batches import TrainingBatches
from flax_transformer.tasks.embeddings.blocks import BlockMaker, TextChunks, draw_table, keep_probabilities
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig, EmbeddingsModelConfig, EmbeddingsTrainingConfig
from flax_transformer.tasks.embeddings.corpus import Vocabulary
from flax_transformer.tasks.embeddings.glove import PAIR, PairChunks
from flax_transformer.tasks.embeddings.word2vec import neighbors

IDS = np.array([0, 1, 2, -1, 3, -1, 0, 2, 1, 0, -1] * 20, np.int32)
WORDS = Vocabulary('abcd', [60, 40, 40, 20])


def maker(window: int = 1, sample: float = 0.0) -> BlockMaker:
    return BlockMaker(WORDS, EmbeddingsModelConfig(window=window), block_size=4, sample=sample)


def pairs_of(blocks: Any, window: int) -> list[tuple[int, int]]:
    """The word and neighbor of every pair, in order."""
    found = []
    for row in range(len(blocks.words)):
        block = type(blocks)(*(x[row] for x in blocks))
        for word, column in zip(*np.nonzero(np.asarray(neighbors(block, window))), strict=True):
            found.append((int(block.words[window + word]), int(block.words[column])))
    return found


def test_neighbors_are_those_of_the_line_across_the_edges_of_blocks() -> None:
    expected = [(a, b) for a, b in zip(IDS, np.roll(IDS, -1), strict=True) if a >= 0 and b >= 0]
    expected = sorted([*expected, *((b, a) for a, b in expected)])
    assert sorted(pairs_of(maker()(IDS, np.random.default_rng(0)), 1)) == expected


def test_windows_are_drawn_uniformly_up_to_the_largest() -> None:
    ids = np.zeros(4000, np.int32)
    blocks = maker(window=4)(ids, np.random.default_rng(0))
    shares = np.bincount(blocks.left.ravel(), minlength=5)[1:5] / 4000
    np.testing.assert_allclose(shares, 0.25, atol=0.03)  # more than three standard deviations
    np.testing.assert_array_equal(blocks.left[1:-1], blocks.right[1:-1])


def test_frequent_words_are_left_out_as_in_word2vec() -> None:
    share = WORDS.counts / WORDS.counts.sum()
    expected = np.minimum((np.sqrt(share / 0.01) + 1) * 0.01 / share, 1)  # the line of word2vec.c
    np.testing.assert_allclose(keep_probabilities(WORDS.counts, 0.01), expected, rtol=1e-6)
    assert keep_probabilities(WORDS.counts, 0.0).tolist() == [1, 1, 1, 1]
    blocks = maker(sample=0.01)(np.tile(IDS, 50), np.random.default_rng(0))
    left = sum(int(((b.left + b.right) > 0).sum()) for b in [blocks])
    assert left < 0.4 * (IDS >= 0).sum() * 50


def test_negatives_are_drawn_by_count_to_the_power_of_three_quarters() -> None:
    found = np.bincount(draw_table(WORDS.counts, 10_000)) / 10_000
    np.testing.assert_allclose(found, WORDS.counts**0.75 / (WORDS.counts**0.75).sum(), atol=1e-3)


def batches_of(chunks: Any, own_rows: Sequence[int] = range(5)) -> TrainingBatches:
    config = EmbeddingsConfig(training=EmbeddingsTrainingConfig(blocks_per_step=5), seed=3)
    return TrainingBatches(config, chunks, np.array(own_rows))


def test_the_order_resumes_in_the_middle_of_a_chunk_and_of_an_epoch() -> None:
    pairs = np.zeros(1000, PAIR)
    pairs['first'], pairs['count'] = np.arange(1000), 1
    for chunks in (TextChunks(IDS, maker(), chunk=50), PairChunks(pairs, block_size=8, segment=4, chunk=20)):
        whole, places = iter(batches_of(chunks)), []
        expected = []
        for _ in range(40):
            places.append(whole.get_state())
            expected.append(next(whole))
        assert batches_of(chunks).epoch(places[-1]) > 1.2
        for step in (0, 7, 23):
            again = iter(batches_of(chunks))
            again.set_state(places[step])
            for a, b in zip(next(again), expected[step], strict=True):
                np.testing.assert_array_equal(a, b)


def test_an_epoch_has_every_word_or_pair_once_in_another_order() -> None:
    pairs = np.zeros(1001, PAIR)
    pairs['first'], pairs['count'] = np.arange(1001), 1
    chunks = PairChunks(pairs, block_size=8, segment=4, chunk=20)
    batches = batches_of(chunks)
    epochs = []
    for epoch in range(2):
        rows = [batches.read(epoch * len(chunks) + number) for number in range(len(chunks))]
        epochs.append(np.concatenate([row.first[row.count > 0] for row in rows]))
    np.testing.assert_array_equal(np.sort(epochs[0]), np.arange(1001))
    np.testing.assert_array_equal(np.sort(epochs[1]), np.arange(1001))
    assert (epochs[0] != epochs[1]).mean() > 0.9


def test_processes_take_their_own_rows_of_one_batch() -> None:
    chunks = TextChunks(IDS, maker(), chunk=50)
    whole = next(iter(batches_of(chunks)))
    for own in ([0, 1], [2, 3, 4]):
        np.testing.assert_array_equal(next(iter(batches_of(chunks, own))).words, whole.words[own])

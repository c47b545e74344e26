"""The batches of training: every text once an epoch, the same on any number of processes, resumed exactly."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from flax_transformer.tasks.classification.batches import EncodedTexts, TrainingBatches
from flax_transformer.tasks.classification.config import ClassificationConfig, ClassificationTrainingConfig
from flax_transformer.tasks.classification.vocabulary import padded


def texts(count: int) -> EncodedTexts:
    tokens = padded([[2 + i, 3 + i] for i in range(count)], 4)
    labels, weight = np.arange(count, dtype=np.int32) % 2, np.ones(count, np.float32)
    return EncodedTexts(tokens, labels, weight, [f'f:{i + 1}' for i in range(count)])


def batches(count: int, size: int, own_rows: Sequence[int] | None = None) -> TrainingBatches:
    config = ClassificationConfig(training=ClassificationTrainingConfig(batch_size=size), seed=3)
    return TrainingBatches(config, texts(count), np.array(range(size) if own_rows is None else own_rows))


def test_every_text_comes_once_an_epoch_in_a_new_order() -> None:
    data = batches(12, 4)
    iterator = iter(data)
    epochs = [[next(iterator) for _ in range(3)] for _ in range(2)]
    orders = [np.concatenate([batch.tokens[:, 0] for batch in epoch]).tolist() for epoch in epochs]
    assert [sorted(order) for order in orders] == [list(range(2, 14))] * 2
    assert orders[0] != orders[1]
    assert data.epoch(iterator.get_state()) == 2
    assert all((batch.labels == batch.tokens[:, 0] % 2).all() for batch in epochs[0])


def test_processes_share_out_the_rows_of_the_same_batches() -> None:
    whole = iter(batches(10, 4))
    parts = [iter(batches(10, 4, own_rows=rows)) for rows in ([0, 1], [2, 3])]
    for _ in range(4):
        expected, found = next(whole), [next(part) for part in parts]
        for name in expected._fields:
            joined = np.concatenate([getattr(part, name) for part in found])
            np.testing.assert_array_equal(joined, getattr(expected, name))


def test_with_fewer_texts_than_rows_the_others_are_empty() -> None:
    data = batches(3, 8)
    for batch, _ in zip(data, range(3), strict=False):
        assert batch.weight.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
        assert sorted(batch.tokens[:3, 0]) == [2, 3, 4]
        assert not batch.tokens[3:].any()


def test_a_batch_is_described_by_file_and_line() -> None:
    data = batches(10, 4)
    first = next(iter(data))
    assert data.describe({'batch': 0}) == {'texts': [f'f:{token - 1}' for token in first.tokens[:, 0]]}


@pytest.mark.parametrize('change', ['tokens', 'labels', 'weight'])
def test_the_fingerprint_is_of_all_that_training_reads(change: str) -> None:
    before = texts(5)
    array = getattr(before, change).copy()
    array[0] += 1
    assert before.fingerprint == texts(5).fingerprint
    assert before.fingerprint != replace(before, **{change: array}).fingerprint

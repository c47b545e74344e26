"""The CTC cost, collapse, searches and alignments, against the enumeration of all paths."""

import itertools

import jax
import numpy as np
import pytest

from flax_transformer.tasks.speech import ctc
from flax_transformer.tasks.speech.ctc import (
    align,
    collapse,
    ctc_cost,
    decode,
    fewest_frames,
    parts,
    prefix_beam,
)

FRAMES, UNITS, ROWS = 5, 3, 40


def random_log_probs(seed: int, frames: int = FRAMES, units: int = UNITS, sharpness: float = 1.0) -> np.ndarray:
    logits = sharpness * np.random.default_rng(seed).normal(size=(frames, units)).astype(np.float32)
    return np.asarray(jax.nn.log_softmax(logits))


def texts(log_probs: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of every text, from every path."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        text = tuple(collapse(path))
        found[text] = found.get(text, 0.0) + float(np.exp(sum(log_probs[i, unit] for i, unit in enumerate(path))))
    return found


@jax.jit
def _costs(logits: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    def total(logits: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        cost, fits = ctc_cost(logits, *rest)
        return cost.sum(), (cost, fits)

    gradient, (cost, fits) = jax.grad(total, has_aux=True)(logits)
    return cost, fits, gradient


def costs(logits: np.ndarray, frames: list[int], labels: list[tuple[int, ...]]) -> tuple[np.ndarray, ...]:
    """Cost, whether there is a path, and gradient, of rows; compiled once, for ROWS of them."""
    padded = np.zeros((ROWS, FRAMES), np.int32)
    for row, each in zip(padded, labels, strict=False):
        row[: len(each)] = each
    empty = ROWS - len(labels)
    counts = np.array([len(each) for each in labels] + [0] * empty, np.int32)
    filled = np.concatenate([logits, np.zeros((empty, FRAMES, UNITS), np.float32)])
    found = _costs(filled, np.array(frames + [0] * empty, np.int32), padded, counts)
    return tuple(np.asarray(each)[: len(labels)] for each in found)


def test_cost_is_that_of_all_paths() -> None:
    log_probs = random_log_probs(0)
    probabilities = texts(log_probs)
    assert sum(probabilities.values()) == pytest.approx(1)
    labels = sorted(probabilities)
    assert len(labels) <= ROWS
    cost, fits, _ = costs(np.repeat(log_probs[None], len(labels), axis=0), [FRAMES] * len(labels), labels)
    assert fits.all()
    np.testing.assert_allclose(np.exp(-cost), [probabilities[each] for each in labels], rtol=1e-5)
    for each in labels:
        assert ctc.log_probability(log_probs, each) == pytest.approx(np.log(probabilities[each]), abs=1e-5)


def test_rows_without_a_path_cost_nothing_and_have_no_gradient() -> None:
    logits = np.random.default_rng(2).normal(size=(4, FRAMES, UNITS)).astype(np.float32)
    labels = [(1, 2, 1), (1, 1, 1), (1, 2, 1), ()]
    # The second needs 5 frames, the third 3; the fourth is an empty row.
    cost, fits, gradient = costs(logits, [FRAMES, FRAMES - 1, 2, 0], labels)
    assert fits.tolist() == [True, False, False, True]
    assert cost[0] > 0
    assert not cost[1:].any()
    assert gradient[0].any()
    assert not gradient[1:].any()


def test_frames_and_labels_beyond_the_counts_do_not_matter() -> None:
    logits = np.random.default_rng(3).normal(size=(1, FRAMES, UNITS)).astype(np.float32)
    other = logits.copy()
    other[:, 3:] = 7
    for one, two in zip(costs(logits, [3], [(2, 1)]), costs(other, [3], [(2, 1)]), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize('labels', [(), (1, 2), (2, 2, 2)])
def test_fewest_frames_are_those_of_the_shortest_path(labels: tuple[int, ...]) -> None:
    lengths = (n for n in range(6) if labels in {tuple(collapse(p)) for p in itertools.product(range(3), repeat=n)})
    assert fewest_frames(labels) == next(lengths)


def test_a_wide_beam_is_an_exhaustive_search() -> None:
    pytest.importorskip('fast_ctc_decode')
    differ = 0
    for seed in range(20):
        log_probs = random_log_probs(seed)
        probabilities = texts(log_probs)
        found = prefix_beam(log_probs, 50)
        assert probabilities[tuple(found)] == pytest.approx(max(probabilities.values()))
        differ += found != collapse(np.argmax(log_probs, axis=-1).tolist())
    assert differ, 'of none the best path is another text: the search could be the best path'


def test_alignment_is_the_most_probable_path_of_the_labels() -> None:
    for seed, labels in enumerate([(), (1,), (1, 1), (2, 1), (1, 2, 1), (2, 2, 1)]):
        log_probs = random_log_probs(seed)
        paths = [p for p in itertools.product(range(UNITS), repeat=FRAMES) if tuple(collapse(p)) == labels]
        best = max(paths, key=lambda path: sum(log_probs[i, unit] for i, unit in enumerate(path)))
        found = align(log_probs, labels).tolist()
        assert [0 if number < 0 else labels[number] for number in found] == list(best)
        assert found == ctc.numbered(best).tolist()


def test_decoding_gives_the_frames_of_each_label() -> None:
    path = (0, 1, 1, 0, 1, 2, 2, 2, 0)
    log_probs = np.asarray(jax.nn.log_softmax(5.0 * np.eye(UNITS, dtype=np.float32)[list(path)]))
    found = decode(log_probs)
    assert found.labels == [1, 1, 2]
    assert found.spans == [(1, 3), (4, 5), (5, 8)]
    assert found.log_probability == pytest.approx(ctc.log_probability(log_probs, [1, 1, 2]))
    assert decode(log_probs[:0]) == ([], [], 0.0)


def test_a_beam_gives_the_frames_of_its_own_labels() -> None:
    pytest.importorskip('fast_ctc_decode')
    log_probs = np.log(np.array([[0.6, 0.4], [0.6, 0.4]], np.float32))  # Graves 2012, figure 7.5: A is likelier
    assert decode(log_probs).labels == []
    found = decode(log_probs, beam_size=5)
    assert found.labels == [1]
    assert found.spans in ([(0, 1)], [(1, 2)])
    assert np.exp(found.log_probability) == pytest.approx(0.64)


def test_long_recordings_are_cut_at_blanks() -> None:
    path = ([0] * 3 + [1] * 4 + [2] * 2) * 6
    log_probs = np.asarray(jax.nn.log_softmax(9.0 * np.eye(UNITS, dtype=np.float32)[path]))
    cut = parts(log_probs, 20)
    np.testing.assert_array_equal(np.concatenate(cut), log_probs)
    assert max(map(len, cut)) <= 20
    assert all(path[sum(map(len, cut[: i + 1])) - 1] == 0 for i in range(len(cut) - 1))

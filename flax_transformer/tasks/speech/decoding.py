"""From log-probabilities to text, with the times of its words.

Shapes: T frames, V units, L labels.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from flax_transformer.tasks.speech.ctc import BLANK_ID, align, best_path, collapse, log_probability, prefix_beam

_LONGEST, _SHORTEST = 1000, 100  # frames that are decoded at once; as many as a beam has the memory for
# fast-ctc-decode keeps each prefix that it tries, with 4 bytes for each unit that could follow: in all 4 GB.
_MOST_FOLLOWING = 1_000_000_000


class Decoded(NamedTuple):
    """The labels found in a recording."""

    labels: list[int]
    spans: list[tuple[int, int]]  # frames of each label: the first, and the one after the last
    log_probability: float  # of the labels given the recording, in nats, over all alignments


def decode(log_probs: np.ndarray, beam_size: int = 1) -> Decoded:
    """The labels of log-probabilities [T, V]: of the best path, or with a beam above 1 by `prefix_beam`.

    Long recordings are cut into parts at frames that are most probably blank, each decoded by itself.
    """
    decoded, offset = Decoded([], [], 0.0), 0
    affordable = _MOST_FOLLOWING // (beam_size * log_probs.shape[1] ** 2)
    for part in parts(log_probs, _LONGEST if beam_size == 1 else min(_LONGEST, max(_SHORTEST, affordable))):
        path = best_path(part).tolist()
        labels = collapse(path) if beam_size == 1 else prefix_beam(part, beam_size)
        alignment = numbered(path) if labels == collapse(path) else align(part, labels).tolist()
        spans = [(first + offset, last + offset) for first, last in _spans(alignment, len(labels))]
        total = decoded.log_probability + log_probability(part, labels)
        decoded = Decoded(decoded.labels + labels, decoded.spans + spans, total)
        offset += len(part)
    return decoded


def most_beam_size(num_units: int) -> int:
    """The widest beam that a search has the memory for."""
    return min(1000, max(1, _MOST_FOLLOWING // (_SHORTEST * num_units**2)))


def parts(log_probs: np.ndarray, longest: int) -> list[np.ndarray]:
    """Log-probabilities [T, V] in parts of at most `longest` frames, cut after the frame, of the second half of each,
    that is most probably blank: no label is then cut in two."""
    found = []
    while len(log_probs) > longest:
        half = longest // 2
        end = half + int(np.argmax(log_probs[half:longest, BLANK_ID])) + 1
        found.append(log_probs[:end])
        log_probs = log_probs[end:]
    return [*found, log_probs]


def numbered(path: Sequence[int]) -> list[int]:
    """A path with each label replaced by its number in the collapsed text, the blank by -1: an alignment.

    >>> numbered([5, 5, 0, 5, 6])
    [0, 0, -1, 1, 2]
    """
    out, number, before = [], -1, BLANK_ID
    for unit in path:
        number += unit not in (before, BLANK_ID)
        out.append(-1 if unit == BLANK_ID else number)
        before = unit
    return out


def _spans(alignment: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Of each of `count` labels the first frame in an alignment, and the one after the last."""
    found = np.asarray(alignment, int)
    edges = np.searchsorted(found[found >= 0], np.arange(count + 1)).tolist()
    places = np.flatnonzero(found >= 0)
    return [(int(places[first]), int(places[last - 1]) + 1) for first, last in pairwise(edges)]

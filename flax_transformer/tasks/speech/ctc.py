"""Connectionist temporal classification (Graves et al. 2006): the cost of a text, and decoding.

A path chooses a unit or the blank for each frame; `collapse` makes it a text, whose probability is the sum over all
paths that collapse to it.

Shapes: B utterances, T frames, L labels, V units, the blank included.
"""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flax_transformer.audio.augment import among_first
from flax_transformer.common.installing import imported

from .units import BLANK_ID


def collapse(path: Sequence[int]) -> list[int]:
    """The labels of a path: repeats that no blank separates become one, then the blanks go.

    >>> collapse([0, 7, 7, 0, 7, 5])
    [7, 7, 5]
    """
    return [unit for unit, _ in groupby(path) if unit != BLANK_ID]


def fewest_frames(labels: Sequence[int]) -> int:
    """The length of the shortest path: a frame for each label, and one for the blank between two that are equal."""
    return len(labels) + sum(label == after for label, after in pairwise(labels))


def ctc_cost(
    logits: jax.Array, num_frames: jax.Array, labels: jax.Array, num_labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """-log p(labels) [B], in nats, and whether there is a path at all, [B].

    Without one the cost, and its gradient, is 0 rather than the 1e5 of optax. Of logits [B, T, V] the first num_frames
    [B] count, of labels [B, L], which have no blanks, the first num_labels [B].
    """
    frame_paddings = ~among_first(num_frames, logits.shape[1])
    label_paddings = ~among_first(num_labels, labels.shape[1])
    repeats = ((labels[:, 1:] == labels[:, :-1]) & ~label_paddings[:, 1:]).sum(axis=1)
    fits = num_labels + repeats <= num_frames
    cost = optax.ctc_loss(
        logits.astype(jnp.float32),
        frame_paddings.astype(jnp.float32),
        labels,
        label_paddings.astype(jnp.float32),
        blank_id=BLANK_ID,
    )
    return jnp.where(fits, jnp.maximum(cost, 0.0), 0.0), fits  # rounding makes it as low as -1e-7


def prefix_beam(log_probs: np.ndarray, beam_size: int) -> list[int]:
    """The most probable labels by a search that keeps `beam_size` prefixes (Graves et al. 2006, section 3.2)."""
    library = imported('fast_ctc_decode', 'speech', '--beam-size above 1')
    if not len(log_probs):
        return []
    probabilities = np.exp(np.asarray(log_probs, np.float32))
    # One character for each unit, so that the text is read back as ids.
    alphabet = [chr(_FIRST + unit) for unit in range(probabilities.shape[1])]
    text, _ = library.beam_search(probabilities, alphabet, beam_size=beam_size, beam_cut_threshold=0.0)
    return [ord(character) - _FIRST for character in text]


_FIRST = 0x10000  # the character for unit 0: above the surrogates there is room for a million


@np.errstate(invalid='ignore')
def log_probability(log_probs: np.ndarray, labels: Sequence[int]) -> float:
    """log p(labels), in nats, summed over all paths of log_probs [T, V]; -inf if there is none, NaN for NaN."""
    trellis = _Trellis(labels)
    if not len(log_probs):
        return -np.inf if labels else 0.0
    score = trellis.start
    for number, emitted in enumerate(log_probs):
        before = trellis.before(score) if number else score[None]
        score = np.logaddexp.reduce(before, axis=0) + emitted[trellis.units]
    return float(np.logaddexp.reduce(score[-2:]))


def align(log_probs: np.ndarray, labels: Sequence[int]) -> np.ndarray:
    """[T] int: the number of the label in each frame, -1 for the blank, on the most probable path (Viterbi)."""
    trellis = _Trellis(labels)
    score = trellis.start
    steps = np.zeros((len(log_probs), len(score)), np.int8)  # how many states back the path comes from
    for number, emitted in enumerate(log_probs):
        if number:
            before = trellis.before(score)
            steps[number] = before.argmax(axis=0)
            score = before.max(axis=0)
        score = score + emitted[trellis.units]
    state = len(score) - 1
    if labels and score[-2] > score[-1]:
        state -= 1
    path = np.empty(len(log_probs), int)
    for number in reversed(range(len(log_probs))):
        path[number] = state
        state -= int(steps[number, state])
    return np.where(path % 2 == 1, path // 2, -1)


class _Trellis:
    """The states of paths that collapse to L labels: blank, label, blank and so on (Graves et al. 2006, figure 3)."""

    def __init__(self, labels: Sequence[int]) -> None:
        self.units = np.full(2 * len(labels) + 1, BLANK_ID)
        self.units[1::2] = labels
        self._may_skip = np.zeros(len(self.units), bool)  # the blank before it, unless the label before is the same
        self._may_skip[3::2] = self.units[3::2] != self.units[1:-2:2]
        self.start = np.full(len(self.units), -np.inf)  # the states of the first frame may be the first two
        self.start[:2] = 0

    def before(self, score: np.ndarray) -> np.ndarray:
        """[3, 2 L + 1]: the scores of the states that each may follow: itself, the one before, that before it."""
        before = np.full((3, len(score)), -np.inf)
        before[0] = score
        before[1, 1:] = score[:-1]
        before[2, 2:] = score[:-2]
        before[2, ~self._may_skip] = -np.inf
        return before


# The most frames decoded at once: without a beam, and with the widest.
_LONGEST, _SHORTEST = 1000, 100
# fast-ctc-decode keeps each prefix that it tries, with 4 bytes for each unit that could follow: 4 GB in all.
_MOST_FOLLOWING = 1_000_000_000


class Decoded(NamedTuple):
    labels: list[int]
    spans: list[tuple[int, int]]  # each label's frames, from the first to before the last
    log_probability: float  # nats, over all alignments within the parts that are decoded


def decode(log_probs: np.ndarray, beam_size: int = 1) -> Decoded:
    """The labels of log-probabilities [T, V]: of the best path, or with a beam by `prefix_beam`."""
    longest = _LONGEST
    if beam_size > 1:
        affordable = _MOST_FOLLOWING // (beam_size * log_probs.shape[1] ** 2)
        longest = min(longest, max(_SHORTEST, affordable))

    labels: list[int] = []
    spans: list[tuple[int, int]] = []
    total = 0.0
    offset = 0
    for part in parts(log_probs, longest):
        path = part.argmax(axis=-1).tolist()
        best = collapse(path)
        own = best if beam_size == 1 else prefix_beam(part, beam_size)
        alignment = numbered(path) if own == best else align(part, own)
        labels += own
        spans += [(first + offset, last + offset) for first, last in _spans(alignment, len(own))]
        total += log_probability(part, own)
        offset += len(part)
    return Decoded(labels, spans, total)


def most_beam_size(num_units: int) -> int:
    return min(1000, max(1, _MOST_FOLLOWING // (_SHORTEST * num_units**2)))


def parts(log_probs: np.ndarray, longest: int) -> list[np.ndarray]:
    """Log-probabilities [T, V] in parts of at most `longest` frames, each up to a frame that is most probably blank."""
    cut = []
    while len(log_probs) > longest:
        half = longest // 2
        end = half + int(np.argmax(log_probs[half:longest, BLANK_ID])) + 1
        cut.append(log_probs[:end])
        log_probs = log_probs[end:]
    return [*cut, log_probs]


def numbered(path: Sequence[int]) -> np.ndarray:
    """A path's alignment, as `align` gives it: 5 5 0 5 6 -> 0 0 -1 1 2."""
    units = np.asarray(path, int)
    is_label = units != BLANK_ID
    is_new = is_label & (np.diff(units, prepend=BLANK_ID) != 0)
    return np.where(is_label, np.cumsum(is_new) - 1, -1)


def _spans(alignment: np.ndarray, count: int) -> list[tuple[int, int]]:
    frames = np.flatnonzero(alignment >= 0)
    edges = np.searchsorted(alignment[frames], np.arange(count + 1)).tolist()
    return [(int(frames[first]), int(frames[last - 1]) + 1) for first, last in pairwise(edges)]

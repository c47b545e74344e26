"""From the probabilities of output frames to hits."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .config import HitConfig

EARLY, LATE = 0.3, 1.0  # seconds: a hit this long before or after the end of a word is that word's


class Hit(NamedTuple):
    seconds: float  # counted from the stream's start to the end of the output frame that decided
    confidence: float  # the score of that frame, at least the threshold


class HitState(NamedTuple):
    """What the rule remembers of a stream."""

    recent: tuple[float, ...]  # probabilities of the last average - 1 output frames
    frames: int = 0  # output frames so far
    is_ready: bool = True  # the score has been below half of the threshold since the last hit
    last: int = -1 << 60  # the output frame of the last hit


def start(config: HitConfig) -> HitState:
    return HitState((0.0,) * (config.average - 1))


def find_hits(
    probabilities: np.ndarray, state: HitState, config: HitConfig, seconds_per_output: float
) -> tuple[list[Hit], HitState]:
    """The hits in the next probabilities [N] of a stream, and the state after them.

    The score of an output frame is the mean of its probability and those of the frames just before it. A hit is a score
    that reaches the threshold, once it was below half of it and `pause` seconds have gone by since the last hit.
    """
    values = np.concatenate([np.asarray(state.recent, np.float64), np.asarray(probabilities, np.float64)])
    window = np.lib.stride_tricks.sliding_window_view
    scores = window(values, config.average).mean(axis=1) if len(probabilities) else ()
    hits = []
    is_ready, last = state.is_ready, state.last
    for frame, score in enumerate(scores, start=state.frames):
        is_ready = is_ready or score < config.threshold / 2
        if score >= config.threshold and is_ready and (frame - last) * seconds_per_output >= config.pause:
            hits.append(Hit((frame + 1) * seconds_per_output, float(score)))
            is_ready, last = False, frame
    recent = tuple(map(float, values[len(values) - len(state.recent) :]))
    return hits, HitState(recent, state.frames + len(probabilities), is_ready, last)


class Matched(NamedTuple):
    """Hits against the words that were said."""

    delays: tuple[float | None, ...]  # seconds from the end of each word to its hit; None: it was missed
    false_accepts: tuple[Hit, ...]  # hits of no word

    @property
    def misses(self) -> int:
        return sum(delay is None for delay in self.delays)


def matched(hits: Iterable[Hit], ends: Sequence[float]) -> Matched:
    """Gives each word the first hit from EARLY seconds before its end to LATE after it.

    `ends` are the ends of words, seconds, ascending. A further hit in that time is a false accept, too.
    """
    left = list(hits)
    delays: list[float | None] = []
    for end in ends:
        own = next((hit for hit in left if -EARLY <= hit.seconds - end <= LATE), None)
        delays.append(own and own.seconds - end)
        if own:
            left.remove(own)
    return Matched(tuple(delays), tuple(left))

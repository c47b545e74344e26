"""Beam search in plain Python, one sentence at a time, by our rules or by those of transformers.

Two rules differ: which of the 2W best continuations may end a hypothesis, and what a live hypothesis can still score.
"""

from collections.abc import Callable

import numpy as np

from flax_transformer.decoding.beam_search import LOOK_AHEAD


def beam_search(
    log_probs: Callable[[list[tuple[int, ...]]], list[np.ndarray]],
    *,
    width: int,
    limit: int,
    eos_id: int,
    alpha: float,
    ends_among: str = 'all',
    bound: str = 'ahead',
    forces_eos: bool = True,
) -> tuple[int, ...]:
    """The best hypothesis, EOS last.

    Args:
      log_probs: [V] of the token after each hypothesis, banned ones at -inf.
      limit: most tokens, EOS included.
      forces_eos: the last may only be EOS, at no cost.
      ends_among: 'all' of the 2W best continuations, as ours, or the 'best' W, as in transformers.
      bound: a live hypothesis is judged some tokens 'ahead', as ours, at the 'longest' length, as with
        early_stopping='never' there, or at its 'present' one, as with early_stopping=False there.
    """
    live, done = [((), 0.0)], []
    for length in range(1, limit + 1):
        found = []
        for beam, ((_, total), row) in enumerate(zip(live, log_probs([tokens for tokens, _ in live]), strict=True)):
            if length == limit and forces_eos:
                row = np.where(np.arange(len(row)) == eos_id, 0.0, -np.inf)
            best = np.argsort(-row, kind='stable')[: 2 * width]
            found += [(-(total + row[i]), beam, int(i)) for i in best if np.isfinite(row[i])]
        found = sorted(found)[: 2 * width]
        ends = [
            (-cost / length**alpha, (*live[beam][0], token))
            for rank, (cost, beam, token) in enumerate(found)
            if token == eos_id and (ends_among == 'all' or rank < width)
        ]
        if length == limit and ends_among == 'best':  # there, what is cut counts like what has ended
            cut = [(-cost / length**alpha, (*live[beam][0], token)) for cost, beam, token in found[:width]]
            ends += [pair for pair in cut if pair[1][-1] != eos_id]
        done = sorted(done + ends, key=lambda pair: -pair[0])[:width]
        live = [((*live[beam][0], token), -cost) for cost, beam, token in found if token != eos_id][:width]
        if len(done) == width and live:
            reach = {'ahead': min(length + LOOK_AHEAD, limit), 'longest': limit, 'present': length}[bound]
            if done[-1][0] >= live[0][1] / reach**alpha:
                break
    return (done or [(0.0, live[0][0])])[0][1]  # ours: what is cut comes last

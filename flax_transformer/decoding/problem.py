"""What every search is given and finds: the problem, what its transforms see, and the hypotheses."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax

from flax_transformer.decoding.scorers import Scorer, length_normalized

NEG_INF = -1e9  # finite, so that differences are numbers


class History(NamedTuple):
    """What a transform may look at."""

    tokens: jax.Array  # [N, L] chosen so far; arbitrary from `position` on
    position: jax.Array  # number of tokens chosen so far, a scalar
    log_probs: jax.Array  # [N, V] of the next token under the model, before any transform


# (log-probabilities [N, V] of the next token, history) -> [N, V]; what must not be chosen gets NEG_INF.
Transform = Callable[[jax.Array, History], jax.Array]


class SearchProblem(NamedTuple):
    """What to search for: how hypotheses start and end, what they may contain and what they are worth."""

    start: jax.Array  # [B] the token before the first
    max_lengths: jax.Array  # [B] most tokens of a hypothesis, EOS included; from 1 to `length`
    length: int  # L, output slots
    eos_id: int
    pad_id: int
    transforms: Sequence[Transform] = ()  # applied in this order
    scorer: Scorer = length_normalized()


class Hypotheses(NamedTuple):
    """The best W hypotheses of each sentence, best first; missing ones have length 0 and scores of NEG_INF."""

    tokens: jax.Array  # [B, W, L] up to EOS, if there is one, then pad_id
    scores: jax.Array  # [B, W] from the scorer, such as log-probability / length penalty
    log_probs: jax.Array  # [B, W] sum of the tokens' log-probabilities, nats
    lengths: jax.Array  # [B, W] tokens, EOS included
    is_finished: jax.Array  # [B, W] False: cut at max_lengths before EOS
    token_log_probs: jax.Array  # [B, W, L] nats, 0 after the hypothesis

"""Search over a step function: small pieces that are put together, and know no model.

A step function takes the last token of N = B * W hypotheses and a `DecodeState`, and returns
float32 logits [N, V] for the next one, and the state after it:

    logits, state = step(tokens, state)

Searches (`greedy_search`, `beam_search`, `sample_search`) take transforms, which change the log-probabilities of the
next token, and a scorer, which says what a hypothesis is worth.

Shapes: B sentences, W beams or samples, N = B * W, V vocabulary, L output slots, S source slots. Lengths are tokens and
count EOS.
"""

from flax_transformer.decoding import transforms
from flax_transformer.decoding.beam import beam_search
from flax_transformer.decoding.one_by_one import greedy_search, sample_search, sentence_keys
from flax_transformer.decoding.scorers import (
    Covered,
    Scorer,
    add,
    coverage_penalty,
    length_normalised,
    length_penalty,
    with_coverage,
    word_reward,
)
from flax_transformer.decoding.steps import (
    NEG_INF,
    DecodeState,
    History,
    Hypotheses,
    Step,
    Transform,
    ensemble,
    ensemble_state,
)

__all__ = [
    'NEG_INF',
    'Covered',
    'DecodeState',
    'History',
    'Hypotheses',
    'Scorer',
    'Step',
    'Transform',
    'add',
    'beam_search',
    'coverage_penalty',
    'ensemble',
    'ensemble_state',
    'greedy_search',
    'length_normalised',
    'length_penalty',
    'sample_search',
    'sentence_keys',
    'transforms',
    'with_coverage',
    'word_reward',
]

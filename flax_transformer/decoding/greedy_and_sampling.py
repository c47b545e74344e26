"""Searches that never look back: greedy and sampling, one loop with two ways to choose."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from flax_transformer.common.decode_state import DecodeState, Step
from flax_transformer.decoding.blockwise import blockwise_argmax
from flax_transformer.decoding.scorers import Scorer, length_normalized
from flax_transformer.decoding.state import Hypotheses, Transform, repeat, stages, transformed, with_room


def greedy_search(
    step: Step,
    state: DecodeState,
    *,
    start: jax.Array,
    max_lengths: jax.Array,
    length: int,
    eos_id: int,
    pad_id: int,
    transforms: Sequence[Transform] = (),
    scorer: Scorer | None = None,
) -> Hypotheses:
    """The most probable next token, again and again, until EOS or the sentence's own max_length.

    Args:
      start: [B] the token before the first.
      max_lengths: [B] tokens at the most, EOS counted, each from 1 to `length`.
      length: L, slots of the output.
      transforms: change the log-probabilities of the next token, one after the other.
      scorer: only makes the reported scores; it cannot change a greedy choice. Default: `length_normalized()`.
    """

    def choose(log_probs: jax.Array, position: jax.Array) -> jax.Array:
        return blockwise_argmax(log_probs)

    common = {'start': start, 'max_lengths': max_lengths, 'length': length, 'eos_id': eos_id, 'pad_id': pad_id}
    return _search(step, state, choose, samples=1, transforms=transforms, scorer=scorer, is_model=False, **common)


def sample_search(
    step: Step,
    state: DecodeState,
    keys: jax.Array,
    *,
    samples: int,
    start: jax.Array,
    max_lengths: jax.Array,
    length: int,
    eos_id: int,
    pad_id: int,
    transforms: Sequence[Transform] = (),
    scorer: Scorer | None = None,
) -> Hypotheses:
    """W = `samples` independent draws for each sentence, the best by `scorer` first; the same one may come twice.

    Each sentence draws with its own key of keys [B], so that its samples do not depend on its company. Tokens are drawn
    from the transformed distribution; log_probs are those of the model itself. Other arguments: `greedy_search`.
    """
    # Gumbel noise makes an argmax a draw (Gumbel 1954; Maddison et al. 2014).
    of_hypothesis = jax.vmap(lambda key: jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples)))(keys)
    of_hypothesis = of_hypothesis.reshape(-1)

    def choose(log_probs: jax.Array, position: jax.Array) -> jax.Array:
        draw = lambda key: jax.random.gumbel(jax.random.fold_in(key, position), log_probs.shape[1:])
        return blockwise_argmax(log_probs + jax.vmap(draw)(of_hypothesis))

    common = {'start': start, 'max_lengths': max_lengths, 'length': length, 'eos_id': eos_id, 'pad_id': pad_id}
    return _search(step, state, choose, samples=samples, transforms=transforms, scorer=scorer, is_model=True, **common)


def sentence_keys(seed: int, source: jax.Array, pad_id: int) -> jax.Array:
    """A key for each sentence of source [B, S], made of its ids alone: the same draws in any batch, any padding."""
    position = jnp.arange(source.shape[1], dtype=jnp.uint32)
    # Each place weighs its token by another odd number, so that order counts; sums and products wrap around.
    weights = (position * jnp.uint32(2654435761) + jnp.uint32(40503)) | jnp.uint32(1)
    mixed = (source.astype(jnp.uint32) + 1) * jnp.uint32(2246822519) ^ (source.astype(jnp.uint32) >> 3)
    digests = jnp.where(source != pad_id, mixed * weights[None], 0).sum(axis=1, dtype=jnp.uint32)
    return jax.vmap(lambda digest: jax.random.fold_in(jax.random.key(seed), digest))(digests)


def _search(
    step: Step,
    state: DecodeState,
    choose: Callable[[jax.Array, jax.Array], jax.Array],
    *,
    samples: int,
    start: jax.Array,
    max_lengths: jax.Array,
    length: int,
    eos_id: int,
    pad_id: int,
    transforms: Sequence[Transform],
    scorer: Scorer | None,
    is_model: bool,
) -> Hypotheses:
    """The loop; is_model: whether log-probabilities are counted as the model gives them, or as transformed."""
    scorer = scorer or length_normalized()
    start, max_lengths = (repeat(x, samples) for x in (start, max_lengths))
    rows = start.shape[0]

    def is_running(carry) -> jax.Array:
        return jnp.any(carry[2].lengths == 0)

    def advance(carry):
        position, last, found, state_score, state = carry
        is_done = found.lengths > 0
        logits, state = step(last, state)
        of_model, changed = transformed(logits, transforms, found.tokens, position)
        chosen = choose(changed, position).astype(jnp.int32)
        gain = jnp.take_along_axis(of_model if is_model else changed, chosen[:, None], axis=-1)[:, 0]
        gain = jnp.where(is_done, 0.0, gain)
        chosen = jnp.where(is_done, pad_id, chosen)
        ends = ~is_done & (chosen == eos_id)
        stops = ends | (~is_done & (position + 1 >= max_lengths))
        if scorer.state_score is not None:
            state_score = jnp.where(is_done, state_score, scorer.state_score(state))
        found = found._replace(
            tokens=found.tokens.at[:, position].set(chosen),
            log_probs=found.log_probs + gain,
            lengths=jnp.where(stops, position + 1, found.lengths),
            is_finished=found.is_finished | ends,
            token_log_probs=found.token_log_probs.at[:, position].set(gain),
        )
        return position + 1, chosen, found, state_score, state

    # A length of 0 stands for a hypothesis that still goes on.
    found = Hypotheses(
        tokens=jnp.full((rows, length), pad_id, jnp.int32),
        scores=jnp.zeros(rows),
        log_probs=jnp.zeros(rows),
        lengths=jnp.zeros(rows, jnp.int32),
        is_finished=jnp.zeros(rows, bool),
        token_log_probs=jnp.zeros((rows, length)),
    )
    state = state._replace(cache=repeat(state.cache, samples))
    carry = (jnp.int32(0), start.astype(jnp.int32), found, jnp.zeros(rows), state)
    for end in stages(state, length):
        carry = (*carry[:-1], with_room(carry[-1], end, samples))
        carry = jax.lax.while_loop(lambda carry, end=end: is_running(carry) & (carry[0] < end), advance, carry)
    _, _, found, state_score, _ = carry
    found = found._replace(scores=scorer.score(found.log_probs, found.lengths) + state_score)
    found = jax.tree.map(lambda x: x.reshape(-1, samples, *x.shape[1:]), found)
    if samples == 1:
        return found
    order = jnp.lexsort((-found.scores, ~found.is_finished), axis=1)
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, order), found)

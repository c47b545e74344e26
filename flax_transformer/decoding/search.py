"""The search that a DecodingConfig describes, and several models as one step."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState, Step

from . import transforms
from .beam_search import beam_search
from .config import DecodingConfig
from .greedy_and_sampling import sample_search, sentence_keys
from .problem import Hypotheses, SearchProblem
from .required import make_required
from .scorers import Scorer, add, coverage_penalty, length_normalized, word_reward


def output_slots(
    decoding: DecodingConfig, source_slots: int, prefix_slots: int = 0, max_positions: int | None = None
) -> int:
    """Most tokens that a translation of a source of this many slots may have."""
    slots = (decoding.max_tokens or source_slots + decoding.max_extra_tokens) + prefix_slots
    return slots if max_positions is None else min(slots, max_positions)


def max_lengths(
    decoding: DecodingConfig,
    source: jax.Array,
    pad_id: int,
    prefix: jax.Array | None = None,
    max_positions: int | None = None,
) -> jax.Array:
    """Most tokens [B] that each translation may have, EOS included; 1 where the source is only padding."""
    lengths = (source != pad_id).sum(axis=-1, dtype=jnp.int32)
    longest = lengths + decoding.max_extra_tokens
    if decoding.max_tokens:
        longest = jnp.full_like(lengths, decoding.max_tokens)
    if prefix is not None:
        longest = longest + (prefix != pad_id).sum(axis=-1, dtype=jnp.int32)
    if max_positions is not None:
        longest = jnp.minimum(longest, max_positions)
    return jnp.where(lengths == 0, 1, longest)


def search(
    step: Step, state: DecodeState, decoding: DecodingConfig, source: jax.Array, *, pad_id: int, **options: Any
) -> Hypotheses:
    """The hypotheses that the config asks for; `options` are those of make_problem."""

    def problem_of(source: jax.Array, arrays: Any) -> SearchProblem:
        def of_rows(rows: jax.Array) -> SearchProblem:
            return problem_of(*jax.tree.map(lambda x: x[rows], (source, arrays)))

        return make_problem(decoding, source, pad_id=pad_id, **options | arrays)._replace(of_rows=of_rows)

    problem = problem_of(source, {name: options.get(name) for name in ('prefix', 'required', 'places')})
    if decoding.search == 'sample':
        if problem.required is not None:
            raise ValueError("required phrases need search='beam'")
        keys = sentence_keys(decoding.seed, source, pad_id)
        return sample_search(step, state, problem, keys=keys, samples=decoding.samples)
    groups = {'groups': decoding.groups, 'diversity': decoding.diversity}
    return beam_search(step, state, problem, width=decoding.beam_width, **groups)


def make_problem(
    decoding: DecodingConfig,
    source: jax.Array,
    *,
    eos_id: int,
    pad_id: int,
    banned: Sequence[int] = (),
    banned_sequences: Sequence[Sequence[int]] = (),
    prefix: jax.Array | None = None,
    required: jax.Array | None = None,
    places: jax.Array | None = None,
    glued: Sequence[int] = (),
    max_positions: int | None = None,
    start_id: int | None = None,
    free_prefix: int = 0,
) -> SearchProblem:
    """What the config asks for, given source ids [B, S], then pad_id.

    Args:
      banned, banned_sequences: never chosen, in addition to what the config bans.
      prefix: ids [B, P] that the translations begin with, then pad_id; the first `free_prefix` cost nothing.
      required: ids [B, G, A, P] of G phrases in A alternatives that the translations contain, then NONE.
      places: source positions [B, G, 2], from and to, that each phrase translates; needs a step by `with_coverage`.
      glued: ids that go on with a word; none follows a phrase with a place.
      max_positions: the model's, where translations are cut; None: any number.
      start_id: the token before the first; None: pad_id.
    """
    limits = max_lengths(decoding, source, pad_id, prefix, max_positions)
    banned = {*banned, *decoding.banned_ids, *[pad_id] * decoding.ban_pad}
    is_drawn = decoding.search == 'sample'
    chain = (
        (True, transforms.ban(sorted(banned))),
        (banned_sequences, transforms.ban_sequences(banned_sequences)),
        (decoding.min_tokens > 1, transforms.min_length(decoding.min_tokens, eos_id)),
        (decoding.no_repeat_ngram, transforms.no_repeat_ngrams(decoding.no_repeat_ngram)),
        (decoding.renormalize, transforms.renormalize()),
        (is_drawn and decoding.temperature != 1.0, transforms.temperature(decoding.temperature)),
        (is_drawn and decoding.top_k, transforms.top_k(decoding.top_k)),
        (is_drawn and decoding.top_p < 1.0, transforms.top_p(decoding.top_p)),
        (is_drawn and decoding.min_p, transforms.min_p(decoding.min_p)),
        (prefix is not None, transforms.forced_prefix(prefix, pad_id, free_prefix)),
        (decoding.force_eos, transforms.force_eos(limits, eos_id)),
    )
    return SearchProblem(
        start=jnp.full(source.shape[0], pad_id if start_id is None else start_id, jnp.int32),
        max_lengths=limits,
        length=output_slots(decoding, source.shape[1], 0 if prefix is None else prefix.shape[1], max_positions),
        eos_id=eos_id,
        pad_id=pad_id,
        transforms=[transform for is_asked, transform in chain if is_asked],
        scorer=make_scorer(decoding, source != pad_id),
        required=None if required is None else make_required(required, places, glued),
    )


def make_scorer(decoding: DecodingConfig, is_source: jax.Array) -> Scorer:
    """The scorer that the config asks for; only a coverage penalty needs is_source [B, S]."""
    scorers = [length_normalized(decoding.length_penalty, decoding.alpha)]
    if decoding.word_reward:
        scorers.append(word_reward(decoding.word_reward))
    if decoding.coverage_penalty:
        scorers.append(coverage_penalty(decoding.coverage_penalty, is_source))
    return add(*scorers)


def ensemble(steps: Sequence[Step], *, mean: str = 'log_probability') -> Step:
    """The step of several models with the same vocabulary, on a state from `ensemble_state`.

    `probability`: the arithmetic mean of their distributions. `log_probability`: the geometric, to be normalized.
    """

    def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        outputs = []
        caches = []
        slots = []
        for member, cache, shared, own in zip(steps, state.cache, state.shared, state.slots, strict=True):
            logits, after = member(tokens, DecodeState(cache, shared, state.position, own, state.ancestry))
            outputs.append(jax.nn.log_softmax(logits.astype(jnp.float32)))
            caches.append(after.cache)
            slots.append(after.slots)
        log_probs = jnp.stack(outputs)
        is_sum = mean == 'probability'
        combined = jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(steps)) if is_sum else log_probs.mean(axis=0)
        return combined, state._replace(cache=tuple(caches), slots=tuple(slots), position=state.position + 1)

    return step


def ensemble_state(states: Sequence[DecodeState]) -> DecodeState:
    caches, shared, positions, slots, _ = zip(*states, strict=True)
    return DecodeState(caches, shared, positions[0], slots)

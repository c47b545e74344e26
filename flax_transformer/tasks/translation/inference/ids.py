"""Pure functions on ids, to be jitted, vmapped or exported within any JAX program; the translator is built on them.

`params` is the tree of one model, or the tuple of the trees of an ensemble's members, in the order of `models`.
Shapes: B sentences, S source slots, T target slots, P prefix slots, W hypotheses, L output slots.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState, Step
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.decoding.scorers import Covered, with_coverage
from flax_transformer.decoding.search import ensemble, ensemble_state, make_scorer, search
from flax_transformer.tasks.translation.inference.forced_decoding import target_log_probs
from flax_transformer.tasks.translation.model import TranslationModel, max_positions
from flax_transformer.transformer.model import shift_right


class Vocabulary(NamedTuple):
    """The ids that have a meaning of their own."""

    pad_id: int  # after each sentence, and before a target
    eos_id: int


def translate_ids(
    params: Any,
    source: jax.Array,
    prefix: jax.Array | None = None,
    *,
    models: Sequence[TranslationModel],
    vocabulary: Vocabulary,
    decoding: DecodingConfig,
    banned: tuple[int, ...] = (),
    banned_sequences: tuple[tuple[int, ...], ...] = (),
) -> Hypotheses:
    """The best hypotheses of source ids [B, S], each ending with EOS and padded: encoder and whole search.

    Static shapes: L = S + max_extra_tokens, or max_tokens; plus P with a prefix [B, P]; at most the positions that the
    models have learned. Each sentence ends at its own limit at the latest, so neither padding nor company changes its
    result. A row of padding alone is searched for one token only and yields nothing of use.
    """
    steps, states = [], []
    for model, variables in _members(params, models):
        step, state = _step(model, variables), model.apply(variables, source, method='start')
        if decoding.coverage_penalty:
            step, state = with_coverage(_step(model, variables, 'decode_and_look'), state, *source.shape)
        steps.append(step)
        states.append(state)
    is_ensemble = len(models) > 1
    return search(
        ensemble(steps, mean=decoding.ensemble) if is_ensemble else steps[0],
        ensemble_state(states) if is_ensemble else states[0],
        decoding,
        source,
        eos_id=vocabulary.eos_id,
        pad_id=vocabulary.pad_id,
        banned=banned,
        banned_sequences=banned_sequences,
        prefix=prefix,
        max_positions=max_positions(models),
    )


def score_ids(
    params: Any,
    source: jax.Array,
    target: jax.Array,
    *,
    models: Sequence[TranslationModel],
    vocabulary: Vocabulary,
    decoding: DecodingConfig,
) -> tuple[jax.Array, jax.Array]:
    """Scores [B] of given targets, as a search with this config ranks them, and each token's log-probability [B, T].

    In nats, 0 at padding. Source [B, S] and target [B, T] end with EOS and are padded.
    """
    pad_id = vocabulary.pad_id
    target_in = shift_right(target, pad_id)
    is_token = target != pad_id
    log_probs = target_log_probs(_members(params, models), source, target_in, target, mean=decoding.ensemble)
    gains = jnp.where(is_token, log_probs, 0.0)
    lengths = is_token.sum(axis=-1)
    scorer = make_scorer(decoding, source != pad_id)
    scores = scorer.score(gains.sum(axis=-1), lengths)
    if scorer.state_score is not None:
        covered = []
        for model, variables in _members(params, models):
            seen = model.apply(variables, source, target_in, method='cross_attention').mean(axis=(0, 2))
            covered.append(Covered((), (seen * is_token[:, :, None]).sum(axis=1)))
        scores += scorer.state_score(DecodeState(tuple(covered), (), jnp.int32(0)))
    return scores, gains


def attend_ids(
    params: Any, source: jax.Array, target: jax.Array, *, models: Sequence[TranslationModel], vocabulary: Vocabulary
) -> jax.Array:
    """Attention [B, T, S] over the source while each target token is written, the mean of the models.

    The mean of the heads of the last decoder layer but one, which aligns best (Garg et al. 2019).
    """
    target_in = shift_right(target, vocabulary.pad_id)
    weights = []
    for model, variables in _members(params, models):
        of_layers = model.apply(variables, source, target_in, method='cross_attention')
        weights.append(of_layers[max(len(of_layers) - 2, 0)].mean(axis=1))
    return sum(weights) / len(weights)


def _members(params: Any, models: Sequence[TranslationModel]) -> list[tuple[TranslationModel, Any]]:
    trees = (params,) if len(models) == 1 else params
    return [(model, {'params': tree}) for model, tree in zip(models, trees, strict=True)]


def _step(model: TranslationModel, variables: Any, method: str = 'decode') -> Step:
    def step(tokens: jax.Array, state: DecodeState):
        return model.apply(variables, tokens, state, method=method)

    return step

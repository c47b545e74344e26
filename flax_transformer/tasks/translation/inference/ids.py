"""The pure functions beneath the translator, on ids: to be jitted, vmapped or exported within any JAX program.

`params` is the tree of one model, or for an ensemble the tuple of its members' trees; `models` says which.
Shapes: B sentences, S source slots, T target slots, P slots of a prefix, W hypotheses, L output slots.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.common.decode_state import DecodeState
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.ensemble import ensemble, ensemble_state
from flax_transformer.decoding.scorers import Covered, with_coverage
from flax_transformer.decoding.search import make_scorer, search
from flax_transformer.decoding.state import Hypotheses
from flax_transformer.transformer.model import Transformer, shift_right


def _members(params: Any, models: Sequence[Transformer]) -> list[tuple[Transformer, Any]]:
    trees = (params,) if len(models) == 1 else params
    return [(model, {'params': tree}) for model, tree in zip(models, trees, strict=True)]


def translate_ids(
    params: Any,
    source: jax.Array,
    prefix: jax.Array | None = None,
    *,
    models: Sequence[Transformer],
    decoding: DecodingConfig,
    banned: tuple[int, ...] = (),
    banned_sequences: tuple[tuple[int, ...], ...] = (),
) -> Hypotheses:
    """The best hypotheses of source ids [B, S], EOS last and pad_id behind: encoder and whole search, purely.

    Static shapes: L = S + max_extra_tokens, or max_tokens, and P more with a prefix [B, P]. Each sentence ends, at the
    latest, at its own limit, so neither padding nor company changes its result. A row of padding alone yields nothing
    of use; its search is over after one token.
    """
    pad_id, eos_id = models[0].config.pad_id, models[0].config.eos_id
    steps, states = [], []
    for model, variables in _members(params, models):
        step, state = _step(model, variables), model.apply(variables, source, method='start')
        if decoding.coverage_penalty:
            step, state = with_coverage(_step(model, variables, 'decode_and_look'), state, *source.shape)
        steps.append(step)
        states.append(state)
    step, state = (
        (steps[0], states[0]) if len(models) == 1 else (ensemble(steps, mean=decoding.ensemble), ensemble_state(states))
    )
    return search(
        step,
        state,
        decoding,
        source,
        eos_id=eos_id,
        pad_id=pad_id,
        banned=banned,
        banned_sequences=banned_sequences,
        prefix=prefix,
    )


def _step(model: Transformer, variables: Any, method: str = 'decode'):
    def step(tokens: jax.Array, state: DecodeState):
        return model.apply(variables, tokens, state, method=method)

    return step


def score_ids(
    params: Any, source: jax.Array, target: jax.Array, *, models: Sequence[Transformer], decoding: DecodingConfig
) -> tuple[jax.Array, jax.Array]:
    """What given targets are worth: scores [B], as a search with this config would rank them, and the log-probability
    of each token, [B, T], nats, 0 at padding. Source [B, S] and target [B, T] end with EOS, pad_id behind."""
    pad_id = models[0].config.pad_id
    decoder_input = shift_right(target, pad_id)
    log_probs = jnp.stack(
        [
            jax.nn.log_softmax(model.apply(variables, source, decoder_input), axis=-1)
            for model, variables in _members(params, models)
        ]
    )
    if decoding.ensemble == 'probability':
        mean = jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(models))
    else:
        mean = jax.nn.log_softmax(log_probs.mean(axis=0), axis=-1)
    is_token = target != pad_id
    gains = jnp.where(is_token, jnp.take_along_axis(mean, target[..., None], axis=-1)[..., 0], 0.0)
    lengths = is_token.sum(axis=-1)
    scorer = make_scorer(decoding, source != pad_id)
    scores = scorer.score(gains.sum(axis=-1), lengths)
    if scorer.state_score is not None:
        covered = []
        for model, variables in _members(params, models):
            seen = model.apply(variables, source, decoder_input, method='cross_attention').mean(axis=(0, 2))
            covered.append(Covered((), (seen * is_token[:, :, None]).sum(axis=1)))
        scores += scorer.state_score(DecodeState(tuple(covered), (), jnp.int32(0)))
    return scores, gains


def attend_ids(params: Any, source: jax.Array, target: jax.Array, *, models: Sequence[Transformer]) -> jax.Array:
    """Attention [B, T, S] of each target token over the source while it is written: the mean of the heads of the last
    decoder layer but one (Garg et al. 2019 find it to align best), and of the models."""
    decoder_input = shift_right(target, models[0].config.pad_id)
    weights = []
    for model, variables in _members(params, models):
        of_layers = model.apply(variables, source, decoder_input, method='cross_attention')
        weights.append(of_layers[max(len(of_layers) - 2, 0)].mean(axis=1))
    return sum(weights) / len(weights)

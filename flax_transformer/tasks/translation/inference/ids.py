"""Pure functions on ids, to be jitted, vmapped or exported within any JAX program; the translator is built on them.

`params` is the tree of one model, or the tuple of those of an ensemble's members, in the order of `models`.
Shapes: B sentences, S source slots, T target slots, P prefix slots, W hypotheses, L output slots.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.decoding.scorers import Covered, with_coverage
from flax_transformer.decoding.search import ensemble, ensemble_state, make_scorer, search
from flax_transformer.engine.losses import cross_entropy, cut
from flax_transformer.ops.batch_invariance import batch_invariance
from flax_transformer.ops.int8 import for_few_rows, has_int8
from flax_transformer.tasks.translation.model import TranslationModel, max_positions
from flax_transformer.transformer.model import shift_right

_ROWS_OF_BLOCKS = 4  # sentences x hypotheses for which blocks are faster; with 8 they were not
CHUNK = 1024  # target slots whose logits are in memory at once


class SpecialIds(NamedTuple):
    pad_id: int  # fills up after each sentence
    eos_id: int
    start_id: int | None = None  # starts a target; None: pad_id
    free_prefix: int = 0  # tokens that every target begins with, at no cost

    @property
    def start(self) -> int:
        return self.pad_id if self.start_id is None else self.start_id


def _invariant(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of parameters, a source and more, batch invariant where decoding.weights `auto` has chosen int8."""

    @wraps(function)
    def invariant(params: Any, source: jax.Array, *rest: Any, decoding: DecodingConfig, **named: Any) -> Any:
        is_wanted = decoding.weights == 'auto' and has_int8(params)
        with batch_invariance(is_wanted):
            return function(params, source, *rest, decoding=decoding, **named)

    return invariant


@_invariant
def translate_ids(
    params: Any,
    source: jax.Array,
    prefix: jax.Array | None = None,
    required: jax.Array | None = None,
    places: jax.Array | None = None,
    *,
    models: Sequence[TranslationModel],
    special_ids: SpecialIds,
    decoding: DecodingConfig,
    banned: tuple[int, ...] = (),
    banned_sequences: tuple[tuple[int, ...], ...] = (),
    glued: tuple[int, ...] = (),
) -> Hypotheses:
    """The best hypotheses of source ids [B, S], each ending with EOS and padded: encoder and whole search.

    Static shapes: L = S + max_extra_tokens, or max_tokens; plus P with a prefix [B, P]; at most the models' positions.
    Neither padding nor the other rows change a sentence's result. Ignore that of a row of padding only.

    With `required` [B, G, A, P], ids and then -1, a translation contains G phrases, each in one of A ways, unless it is
    cut (`decoding.required`). With `places` [B, G, 2], the source positions, from and to, that a phrase translates, it
    stands where the hypothesis attends to them, or is left out; where both are equal it may stand anywhere.
    """
    steps = []
    states = []
    order = jnp.argsort((source == special_ids.pad_id).sum(axis=1))  # longest first
    count = source.shape[0]
    if count == decoding.num_candidates == 1 and jax.default_backend() == 'gpu':
        # One hypothesis, twice: XLA for GPUs writes the terms of a product of one row to memory before it adds them up.
        order = jnp.repeat(order, 2)
    source, prefix, required, places = jax.tree.map(lambda x: x[order], (source, prefix, required, places))

    for model, variables in _members(params, models):
        start = partial(model.apply, variables, method='start')
        state = start_by_length(start, source, pad_id=special_ids.pad_id)
        if isinstance(count, int) and count * decoding.num_candidates <= _ROWS_OF_BLOCKS:  # symbolic in an export
            variables = for_few_rows(variables)
        step = partial(model.apply, variables, method='decode')
        if decoding.coverage_penalty or places is not None:
            step = partial(model.apply, variables, method='decode_with_attention')
            step, state = with_coverage(step, state, *source.shape)
        steps.append(step)
        states.append(state)

    is_ensemble = len(models) > 1
    hypotheses = search(
        ensemble(steps, mean=decoding.ensemble) if is_ensemble else steps[0],
        ensemble_state(states) if is_ensemble else states[0],
        decoding,
        source,
        **special_ids._asdict(),
        banned=banned,
        banned_sequences=banned_sequences,
        prefix=prefix,
        required=required,
        places=places,
        glued=glued,
        max_positions=max_positions(models),
    )
    back = jnp.argsort(order)[:count]
    return jax.tree.map(lambda x: x[back], hypotheses)


WIDTHS = (16, 32, 64, 128)
GROUPS = {8: 64, 4: 16}  # groups of rows, each encoded by itself, where there are more slots than this


def start_by_length(start: Callable[[jax.Array], DecodeState], source: jax.Array, *, pad_id: int) -> DecodeState:
    """`start(source)` of ids [B, S] that are sorted by length.

    CPUs encode a group of rows at a time, in as few slots as it needs: most of a batch of mixed lengths is padding. A
    group of padding only is not encoded.
    """
    rows, slots = source.shape
    is_static = isinstance(rows, int) and isinstance(slots, int)
    fit = [n for n, most in GROUPS.items() if is_static and slots > most and rows % n == 0 and rows >= 4 * n]
    if not fit:
        return start(source)
    groups = fit[0]
    widths = [width for width in WIDTHS if width < slots] + [slots]
    whole = jax.eval_shape(start, source[: rows // groups])

    def fill(x: jax.Array, like: Any) -> jax.Array:
        return jnp.zeros_like(like).at[tuple(map(slice, x.shape))].set(x)

    def in_width(width: int, group: jax.Array) -> DecodeState:
        return jax.tree.map(fill, start(group[:, :width]), whole)

    def start_group(group: jax.Array) -> DecodeState:
        longest = (group != pad_id).sum(axis=1).max()
        starts = [lambda group: jax.tree.map(jnp.zeros_like, whole), *[partial(in_width, width) for width in widths]]
        return jax.lax.switch((longest > jnp.array([0, *widths])).sum(), starts, group)

    def join(x: jax.Array) -> jax.Array:
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]) if x.ndim > 1 else x[0]

    def by_group(source: jax.Array) -> DecodeState:
        return jax.tree.map(join, jax.lax.map(start_group, source.reshape(groups, -1, slots)))

    return jax.lax.platform_dependent(source, cpu=by_group, default=start)


@_invariant
def score_ids(
    params: Any,
    source: jax.Array,
    target: jax.Array,
    *,
    models: Sequence[TranslationModel],
    special_ids: SpecialIds,
    decoding: DecodingConfig,
) -> tuple[jax.Array, jax.Array]:
    """Scores [B] of given targets [B, T], as a search ranks them, and each token's log-probability [B, T].

    In nats, 0 at padding. Source [B, S] and target end with EOS and are padded.
    """
    pad_id = special_ids.pad_id
    target_in = shift_right(target, special_ids.start)
    is_token = target != pad_id
    log_probs = target_log_probs(_members(params, models), source, target_in, target, mean=decoding.ensemble)
    is_free = jnp.arange(target.shape[1])[None] < special_ids.free_prefix
    gains = jnp.where(is_token & ~is_free, log_probs, 0.0)
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
    params: Any, source: jax.Array, target: jax.Array, *, models: Sequence[TranslationModel], special_ids: SpecialIds
) -> jax.Array:
    """Attention [B, T, S] over the source while each target token is written, the mean of the models and heads.

    That of the last decoder layer but one, which aligns best (Garg et al. 2019).
    """
    target_in = shift_right(target, special_ids.start)
    weights = []
    for model, variables in _members(params, models):
        layers = model.apply(variables, source, target_in, method='cross_attention')
        weights.append(layers[max(len(layers) - 2, 0)].mean(axis=1))
    return sum(weights) / len(weights)


def _members(params: Any, models: Sequence[TranslationModel]) -> list[tuple[TranslationModel, Any]]:
    trees = (params,) if len(models) == 1 else params
    return [(model, {'params': tree}) for model, tree in zip(models, trees, strict=True)]


def target_log_probs(
    members: Sequence[tuple[TranslationModel, Any]],
    source: jax.Array,
    target_in: jax.Array,
    target: jax.Array,
    *,
    mean: str = 'log_probability',
) -> jax.Array:
    """Log-probabilities [B, T] of the target ids under the mean of `members`, models with their variables.

    Logits of CHUNK slots of each model are in memory at once, or of B if that is larger: 131 MB for 32,000 pieces.
    Those of all slots are for a model without `hidden` and `project`.
    """

    def is_chunked(model: TranslationModel) -> bool:
        return hasattr(model, 'hidden') and hasattr(model, 'project')

    hidden = tuple(
        model.apply(variables, source, target_in, method='hidden' if is_chunked(model) else None)
        for model, variables in members
    )

    def chunk_log_probs(chunk: tuple[tuple[jax.Array, ...], jax.Array]) -> jax.Array:
        outputs, targets = chunk
        logits = [
            (model.apply(variables, x, method='project') if is_chunked(model) else x).astype(jnp.float32)
            for (model, variables), x in zip(members, outputs, strict=True)
        ]
        if mean == 'probability':
            log_probs = jnp.stack([-cross_entropy(own, targets)[1] for own in logits])
            return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(logits))
        # Log-probabilities are logits less a constant, so their mean, normalized, is that of the logits.
        return -cross_entropy(sum(logits) / len(logits), targets)[1]

    batch, length = target.shape
    count = -(-length // max(1, CHUNK // batch))
    if count == 1:
        return chunk_log_probs((hidden, target))
    chunks = jax.tree.map(lambda x: cut(x, count), (hidden, target))
    log_probs = jax.lax.map(chunk_log_probs, chunks)  # [count, B, width]
    return jnp.moveaxis(log_probs, 0, 1).reshape(batch, -1)[:, :length]

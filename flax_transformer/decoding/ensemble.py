"""Several models as one step function."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState, Step


def ensemble(steps: Sequence[Step], *, mean: str = 'log_probability') -> Step:
    """The step of several models with the same vocabulary, on a state from `ensemble_state`.

    `probability`: the arithmetic mean of their distributions. `log_probability`: the geometric mean, normalized by the
    search.
    """
    if mean not in ('log_probability', 'probability'):
        raise ValueError(f'mean={mean!r}: expected log_probability or probability')

    def step(tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        outputs, caches, slots = [], [], []
        for one, *parts in zip(steps, state.cache, state.shared, state.slots, strict=True):
            cache, shared, own = parts
            logits, after = one(tokens, DecodeState(cache, shared, state.position, own, state.ancestry))
            outputs.append(jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1))
            caches.append(after.cache)
            slots.append(after.slots)
        stacked = jnp.stack(outputs)
        if mean == 'probability':
            combined = jax.nn.logsumexp(stacked, axis=0) - jnp.log(len(outputs))
        else:
            combined = stacked.mean(axis=0)
        return combined, state._replace(cache=tuple(caches), slots=tuple(slots), position=state.position + 1)

    return step


def ensemble_state(states: Sequence[DecodeState]) -> DecodeState:
    """The state of an `ensemble`, from those of its members."""
    caches, shared, slots = (
        tuple(parts) for parts in zip(*[(s.cache, s.shared, s.slots) for s in states], strict=True)
    )
    return DecodeState(caches, shared, states[0].position, slots)

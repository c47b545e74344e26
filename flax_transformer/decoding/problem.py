"""What all searches share: the problem, the hypotheses, the loop, and the largest of many numbers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flax_transformer.common.trees import DecodeState

from .scorers import Scorer, length_normalized

NEG_INF = -1e9  # finite, so that differences are numbers
NONE = -1  # fills up `phrases`
FIRST_STAGE = 32  # positions
LEAST_ROWS = 8  # sentences: steps of fewer cost CPUs hardly less
BLOCK = 64  # numbers, compared by their maximum first


class History(NamedTuple):
    """What a transform may look at."""

    tokens: jax.Array  # [N, L] chosen so far; arbitrary from `position` on
    position: jax.Array  # number of tokens chosen so far, a scalar
    log_probs: jax.Array  # [N, V] of the next token under the model, before any transform


# (log-probabilities [N, V] of the next token, history) -> [N, V]; what must not be chosen gets NEG_INF.
Transform = Callable[[jax.Array, History], jax.Array]


class Required(NamedTuple):
    """What each sentence's translation must contain."""

    phrases: jax.Array  # [B, G, A, P] ids, then NONE; an alternative, or a phrase, without ids does not exist
    times: jax.Array  # [B, G] how often each phrase must occur: a repeated one once more each time; 0: no phrase
    places: jax.Array | None = None  # [B, G, 2] the source positions, from and to, that it translates; equal: any
    glued: Sequence[int] = ()  # tokens that go on with a word: none follows a phrase that has a place

    @property
    def exists(self) -> jax.Array:  # [B]
        return (self.times > 0).any(axis=1)


class SearchProblem(NamedTuple):
    """What to search for: how hypotheses start and end, what they may contain and what they are worth."""

    start: jax.Array  # [B] the token before the first
    max_lengths: jax.Array  # [B] most tokens of a hypothesis, EOS included; from 1 to `length`
    length: int  # L, output slots
    eos_id: int
    pad_id: int
    transforms: Sequence[Transform] = ()  # applied in this order
    scorer: Scorer = length_normalized()
    required: Required | None = None  # phrases that hypotheses must contain to end; for beams only
    # The problem of some sentences, given their rows; None: all stay in one batch until the last one ends.
    of_rows: Callable[[jax.Array], 'SearchProblem'] | None = None


class Hypotheses(NamedTuple):
    """The best W hypotheses of each sentence, best first; missing ones have length 0 and scores of NEG_INF."""

    tokens: jax.Array  # [B, W, L] up to EOS, if there is one, then pad_id
    scores: jax.Array  # [B, W] from the scorer, such as log-probability / length penalty
    log_probs: jax.Array  # [B, W] sum of the tokens' log-probabilities, nats
    lengths: jax.Array  # [B, W] tokens, EOS included
    is_finished: jax.Array  # [B, W] False: cut at max_lengths before EOS
    token_log_probs: jax.Array  # [B, W, L] nats, 0 after the hypothesis


def next_log_probs(
    logits: jax.Array, problem: SearchProblem, tokens: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities [N, V] under the model, and after the transforms, which need not normalize them."""
    logits = logits.astype(jnp.float32)
    # Not jax.nn.log_softmax: XLA on CPUs runs it at half the speed for 128 rows.
    log_probs = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)

    history = History(tokens, position, log_probs)
    transformed = log_probs
    for transform in problem.transforms:
        transformed = transform(transformed, history)
    return log_probs, transformed


def repeat(tree: Any, width: int) -> Any:
    """A tree of [B * W, ...] from one of [B, ...]."""
    return jax.tree.map(lambda x: jnp.repeat(x, width, axis=0), tree) if width > 1 else tree


def gather_beams(tree: Any, index: jax.Array) -> Any:
    """Entries `index` [B, K] of the second axis of every array [B, W, ...]."""
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, index), tree)


def with_room(state: DecodeState, length: int, width: int) -> DecodeState:
    """The state with slots for `length` positions of W = `width` hypotheses."""

    def is_slots(x: Any) -> bool:
        return hasattr(x, 'with_room')

    slots = jax.tree.map(lambda own: own.with_room(length * width), state.slots, is_leaf=is_slots)
    return state._replace(slots=slots)


def run_search(
    advance: Callable[[Any, SearchProblem], Any],
    is_open: Callable[[Any], jax.Array],
    carry: Any,
    problem: SearchProblem,
    *,
    width: int,
) -> Any:
    """The carry, which has a `position` and a `state`, once no search is open; the state is dropped.

    It also ends once `problem.length` tokens are chosen. `is_open(carry)` is [B].
    """

    def finish(shapes: Sequence[tuple[int, int]], carry: Any, problem: SearchProblem) -> Any:
        """The carry of some sentences once none is open, by steps of these (sentences, slots)."""
        (rows, slots), *later = shapes
        fewer = later[0][0] if later and later[0][0] != rows else 0

        def goes_on(carry: Any) -> jax.Array:
            return (is_open(carry).sum() > fewer) & (carry.position < slots)

        carry = carry._replace(state=with_room(carry.state, slots, width))
        carry = jax.lax.while_loop(goes_on, lambda carry: advance(carry, problem), carry)
        state, carry = carry.state, carry._replace(state=())
        if not later:
            return carry
        if not fewer:  # most batches end here: room for more would be filled for nothing

            def go_on(carry: Any) -> Any:
                return finish(later, carry._replace(state=state), problem)

            return jax.lax.cond(is_open(carry).any(), go_on, lambda carry: carry, carry)

        open_first = jnp.argsort(~is_open(carry))

        def finish_some(turn: jax.Array, carry: Any) -> Any:
            order = jnp.roll(open_first, -turn * fewer)
            chosen = order[:fewer]
            part = _rows_of(carry._replace(state=state), chosen, rows)
            part = finish(later, part, problem.of_rows(chosen))
            return _with_rows(carry, order, part)

        turns = -(-is_open(carry).sum() // fewer)
        return jax.lax.fori_loop(0, turns, finish_some, carry)

    return finish(_shapes(carry.state, problem), carry, problem)


def _rows_of(tree: Any, rows: jax.Array, batch: int) -> Any:
    """The entries of some sentences, from arrays [B * any, ...]."""
    leaves, treedef = jax.tree.flatten(tree)
    arrays = [x.reshape(batch, -1, *x.shape[1:]) for x in leaves if x.ndim]
    # Each is copied whole: a gather would compute every number's place.
    taken = iter(jax.lax.map(lambda row: [x[row] for x in arrays], rows))
    parts = [next(taken).reshape(-1, *x.shape[1:]) if x.ndim else x for x in leaves]
    return jax.tree.unflatten(treedef, parts)


def _with_rows(carry: Any, order: jax.Array, part: Any) -> Any:
    """The carry [B * any, ...] with later values of the first sentences in `order` [B]."""
    back = jnp.argsort(order)

    def put(x: jax.Array, part: jax.Array) -> jax.Array:
        if not x.ndim:
            return x
        entries = x.reshape(len(order), -1, *x.shape[1:])
        part = part.reshape(-1, *entries.shape[1:])
        return jnp.concatenate([part, entries[order[len(part) :]]])[back].reshape(x.shape)

    return jax.tree.map(put, carry, part)


def _shapes(state: DecodeState, problem: SearchProblem) -> list[tuple[int, int]]:
    """(sentences, slots) of each step that is compiled: as searches end there are fewer, with room for more tokens."""
    batch = problem.start.shape[0]
    length = problem.length
    # A step costs CPUs as much as it has rows.
    is_divided = problem.of_rows is not None and isinstance(batch, int) and jax.default_backend() == 'cpu'
    if not is_divided or batch <= LEAST_ROWS:
        return [(batch, slots) for slots in _stages(state, length, factor=2)]
    first, *later = _stages(state, length, factor=4)
    halved = [rows for rows in (batch, batch // 2, batch // 4) if rows > LEAST_ROWS]
    return [(rows, first) for rows in halved] + [(LEAST_ROWS, slots) for slots in later or [first]]


def _stages(state: DecodeState, length: int, factor: int) -> list[int]:
    """Slots of each stage: a step's cost grows with them, and a high limit must not slow down short sentences."""
    if not jax.tree.leaves(state.slots) or not isinstance(length, int):  # a symbolic length cannot be compared
        return [length]
    grown = [FIRST_STAGE * factor**i for i in range(length.bit_length())]
    return [slots for slots in grown if 1.5 * slots <= length] + [length]


def blockwise_top_k(x: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """`jax.lax.top_k` of rows [N, V], faster: the k blocks with the largest maxima hold the k largest numbers."""
    return _top_k_by_block(x[:, None], k)


def top_k_of_beams(x: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The k largest of each sentence's x [B, W, V], and their indices among W * V; ties go to the lower index."""
    return jax.lax.platform_dependent(x, tpu=partial(_top_k_by_beam, k=k), default=partial(_top_k_by_block, k=k))


def _top_k_by_block(x: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """`top_k_of_beams`, from the k blocks with the largest maxima."""
    batch, width, size = x.shape
    if width * size <= (2 * k - 1) * BLOCK:
        values, index = jax.lax.top_k(x.reshape(batch, -1), k)
        return values, index

    maxima = _block_maxima(x)
    count = maxima.shape[-1]
    chosen = jnp.sort(jax.lax.top_k(maxima.reshape(batch, -1), k)[1], axis=1)  # sorted, so that ties keep their order
    beam = jnp.repeat(chosen // count, BLOCK, axis=1)
    token = ((chosen % count)[:, :, None] * BLOCK + jnp.arange(BLOCK)[None, None]).reshape(batch, -1)
    candidates = x[jnp.arange(batch)[:, None], beam, jnp.minimum(token, size - 1)]
    candidates = jnp.where(token < size, candidates, -jnp.inf)

    values, index = jax.lax.top_k(candidates, k)
    return values, jnp.take_along_axis(beam * size + token, index, axis=1)


def _top_k_by_beam(x: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """`top_k_of_beams` from the k largest of each beam; blocks, or rows of W * V, would move all of x on TPUs."""
    batch, width, size = x.shape
    values, index = jax.lax.top_k(x, min(k, size))
    index = (index + size * jnp.arange(width, dtype=jnp.int32)[None, :, None]).reshape(batch, -1)
    values, chosen = jax.lax.top_k(values.reshape(batch, -1), k)
    return values, jnp.take_along_axis(index, chosen, axis=1)


def blockwise_argmax(x: jax.Array) -> jax.Array:
    """`jnp.argmax` of rows [N, V], faster."""
    size = x.shape[1]
    block = jnp.argmax(_block_maxima(x), axis=1)
    token = block[:, None] * BLOCK + jnp.arange(BLOCK)[None]
    candidates = jnp.take_along_axis(x, jnp.minimum(token, size - 1), axis=1)
    return block * BLOCK + jnp.argmax(candidates, axis=1)


def _block_maxima(x: jax.Array) -> jax.Array:
    """The maximum of each block of x [..., V]: [..., ceil(V / BLOCK)]; the last block may be shorter."""
    size = x.shape[-1]
    rest = size % BLOCK
    maxima = [x[..., size - rest :].max(axis=-1, keepdims=True)] if rest else []
    if size > rest:
        # Two reductions: the first, over an inner axis, is vectorized. XLA would pad number by number.
        blocks = x[..., : size - rest].reshape(*x.shape[:-1], size // BLOCK, 4, BLOCK // 4)
        maxima.insert(0, blocks.max(axis=-2).max(axis=-1))
    return jnp.concatenate(maxima, axis=-1)

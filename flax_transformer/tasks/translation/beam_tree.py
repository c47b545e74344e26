"""The tree of hypotheses that a beam search goes through, for `plots.search.plot_beam_tree`."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.beam_search import beam_search
from flax_transformer.decoding.problem import History, Hypotheses, SearchProblem, Transform
from flax_transformer.decoding.search import make_rules, make_scorer, max_lengths, output_slots
from flax_transformer.tasks.translation.inference.translator import Translator


class BeamTree(NamedTuple):
    """N nodes, each a token at the end of a hypothesis, every node after its parent."""

    tokens: list[str]
    parents: list[int]  # -1: where all begin
    log_probs: list[float]  # of the hypothesis, nats
    kept: list[bool]  # False: the search dropped it
    best: int  # the last node of the hypothesis that the search returns


def beam_tree(translator: Translator, line: str, *, dropped: int = 1) -> BeamTree:
    """What the translator's beam search considers for a line: all that it keeps, and `dropped` others of each step.

    Raises UserError for a search that is not one plain beam over one model.
    """
    decoding, programs = translator.decoding, translator.programs
    if decoding.search != 'beam' or decoding.groups > 1 or decoding.coverage_penalty or len(translator.models) > 1:
        raise UserError(
            f'a tree of the search: got search={decoding.search!r}, groups={decoding.groups}, coverage_penalty='
            f'{decoding.coverage_penalty}, {len(translator.models)} model(s); expected a beam in one group, without '
            'that penalty, over one model'
        )
    (ids,) = translator.tokenizer.encode([line], target_language=decoding.target_language)
    programs.check_lengths('line', [line], [ids])
    steps: list[np.ndarray] = []  # [W, V] log-probabilities of each step
    found = _search(translator, jnp.asarray([ids]), steps)
    best = np.asarray(found.tokens[0, 0, : int(found.lengths[0, 0])]).tolist()
    eos_id = translator.tokenizer.eos_id
    nodes = _grow(steps, width=decoding.beam_width, eos_id=eos_id, dropped=dropped)
    last = -1
    for token in best:
        last = next(i for i, node in enumerate(nodes) if node[:2] == (token, last))
    tokens, parents, log_probs, kept = (list(column) for column in zip(*nodes, strict=True))
    return BeamTree([translator.tokenizer.piece(i) for i in tokens], parents, log_probs, kept, last)


def _search(translator: Translator, source: jax.Array, steps: list[np.ndarray]) -> Hypotheses:
    """The hypotheses of one source, as the translator finds them; fills `steps`."""
    decoding, tokenizer, limit = translator.decoding, translator.tokenizer, translator.programs.max_positions
    variables = {'params': translator.weights}
    banned = [*tokenizer.tags_to_ban, *[tokenizer.unk_id] * decoding.ban_unk, *[tokenizer.pad_id] * decoding.ban_pad]
    rules = make_rules(
        decoding, eos_id=tokenizer.eos_id, banned=banned, banned_sequences=translator.programs.banned_sequences
    )
    problem = SearchProblem(
        start=jnp.full(1, tokenizer.pad_id, jnp.int32),
        max_lengths=max_lengths(decoding, source, tokenizer.pad_id, max_positions=limit),
        length=output_slots(decoding, source.shape[1], max_positions=limit),
        eos_id=tokenizer.eos_id,
        pad_id=tokenizer.pad_id,
        transforms=[*rules, _recorder(steps)],
        scorer=make_scorer(decoding),
    )
    model = translator.model
    step = lambda tokens, state: model.apply(variables, tokens, state, method='decode')
    found = beam_search(step, model.apply(variables, source, method='start'), problem, width=decoding.beam_width)
    jax.effects_barrier()
    return found


def _recorder(steps: list[np.ndarray]) -> Transform:
    """A transform that changes nothing and appends the log-probabilities of each step."""

    def transform(log_probs: jax.Array, history: History) -> jax.Array:
        jax.debug.callback(lambda values: steps.append(np.asarray(values)), log_probs, ordered=True)
        return log_probs

    return transform


def _grow(steps: Sequence[np.ndarray], *, width: int, eos_id: int, dropped: int) -> list[tuple[int, int, float, bool]]:
    """Nodes (token, parent, log-probability, whether it was kept), by the rules of `beam_search`."""
    nodes: list[tuple[int, int, float, bool]] = []
    live = [(-1, np.float32(0))]  # the node and log-probability of each unfinished hypothesis, as they are ranked
    for log_probs in steps:
        totals = np.stack([total + log_probs[row] for row, (_, total) in enumerate(live)])
        order = np.argsort(-totals, axis=None, kind='stable')[: 2 * width]
        parents, live, num_dropped = live, [], 0
        for rank, (row, token) in enumerate(zip(*np.unravel_index(order, totals.shape), strict=True)):
            # Greedy search ends with the first choice; a beam sets a hypothesis that ends aside, and goes on.
            is_kept = rank == 0 if width == 1 else token == eos_id or len(live) < width
            num_dropped += not is_kept
            if not is_kept and num_dropped > dropped:
                continue
            total = totals[row, token]
            if is_kept and token != eos_id:
                live.append((len(nodes), total))
            nodes.append((int(token), parents[row][0], float(total), bool(is_kept)))
    return nodes

"""The tree of a search is the search that the translator makes."""

from pathlib import Path

import numpy as np
import pytest

from flax_transformer import Translator, UserError
from flax_transformer.tasks.translation.inspection import _grow, beam_tree


def test_the_tree_leads_to_the_translation_and_keeps_as_many_as_the_beam(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=3)
    translation, tree = translator('a c d'), beam_tree(translator, 'a c d', dropped=2)
    path, node = [], tree.best
    while node >= 0:
        path.append(node)
        node = tree.parents[node]
    path.reverse()
    assert tuple(tree.tokens[node] for node in path) == translation.tokens
    assert tree.log_probs[tree.best] == pytest.approx(translation.log_prob, abs=1e-5)
    assert np.diff([0.0, *(tree.log_probs[node] for node in path)]) == pytest.approx(
        translation.token_log_probs, abs=1e-5
    )
    depth: list[int] = []
    for node, parent in enumerate(tree.parents):
        assert parent < node
        depth.append(0 if parent < 0 else depth[parent] + 1)
        assert parent < 0 or tree.log_probs[node] <= tree.log_probs[parent]
        assert parent < 0 or tree.kept[parent], 'what was dropped has no children'
    for step in range(max(depth) + 1):
        here = [node for node, of in enumerate(depth) if of == step]
        live = [node for node in here if tree.kept[node] and tree.tokens[node] != '</s>']
        dropped = [node for node in here if not tree.kept[node]]
        assert len(live) == 3
        assert len(dropped) <= 2
        assert not dropped or max(tree.log_probs[i] for i in dropped) <= min(tree.log_probs[i] for i in live)


def test_a_search_in_groups_has_no_tree(copy_run: Path) -> None:
    with pytest.raises(UserError, match='groups=2'):
        beam_tree(Translator.from_run(copy_run, beam_width=4, groups=2), 'a b')


def test_greedy_search_keeps_one_token_a_step_and_a_beam_the_ends_too() -> None:
    steps = [np.log([[0.25, 0.5, 0.25]]), np.log([[0.25, 0.3, 0.45]])]  # id 0 is EOS
    greedy = _grow(steps, width=1, eos_id=0, dropped=1)
    assert [(token, parent, kept) for token, parent, _, kept in greedy] == [
        *((1, -1, True), (0, -1, False)),
        *((2, 0, True), (1, 0, False)),
    ]
    beam = _grow(steps[:1], width=2, eos_id=0, dropped=1)
    assert [(token, kept) for token, _, _, kept in beam] == [(1, True), (0, True), (2, True)]

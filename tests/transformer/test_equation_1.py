"""Equation 1 is what runs: a function that replaces it, or a part of it, changes whatever attends.

Everything runs without `jit`, whose programs would keep the functions they were traced with.
"""

from functools import partial

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import pytest
from conftest import ROOT
from tiny_translation import MODEL, fresh_params, uneven_batch

from flax_transformer.decoding.problem import with_room
from flax_transformer.tasks.translation.task import loss_sums
from flax_transformer.transformer import attention as module
from flax_transformer.transformer.model import Transformer

BATCH = uneven_batch()


@pytest.fixture(scope='module')
def params():
    return fresh_params()


@pytest.fixture(scope='module')
def state(params):
    """After one token of two sentences, whose memory no replacement has touched."""
    apply = partial(Transformer(MODEL).apply, {'params': params})
    state = with_room(apply(BATCH.source[:2], method='start'), 2, 1)
    return apply(BATCH.target[:2, 0], state, method='decode')[1]


def results(params, state):
    """What a tiny model computes by attention, and how many legs a notebook's animals have."""
    model = Transformer(MODEL)
    apply = partial(model.apply, {'params': params})
    return {
        'training loss': loss_sums(params, BATCH, jax.random.key(0), model=model, label_smoothing=0.1)[0],
        'encoding': apply(BATCH.source[:2], method='encode'),
        'map of attention': apply(BATCH.source[:2], BATCH.target[:2], method='cross_attention'),
        'cached step': apply(BATCH.target[:2, 1], state, method='decode')[0],
        'notebook': legs(),
    }


def legs():
    """The answers of the first cell of attention.ipynb that attends."""
    cells = nbformat.read(ROOT / 'notebooks/attention.ipynb', as_version=4).cells
    scope = {}
    exec(next(cell.source for cell in cells if 'answers = attention(' in cell.source), scope)
    return scope['answers']


@pytest.fixture(scope='module')
def before(params, state):
    return results(params, state)


# The functions that take the place of equation 1 and its parts, and what stays the same: a cached step attends by the
# parts, and the notebook asks for the equation's own score.
REPLACEMENTS = {
    'attention': (lambda *args, _attend=module.attention, **rest: 2 * _attend(*args, **rest), {'cached step'}),
    'scaled_dot': (module.dot, {'notebook'}),
    'masked_softmax': (lambda scores, mask=None: jnp.ones_like(scores) / scores.shape[-1], set()),
    'weighted_values': (lambda *args, _sums=module.weighted_values: -_sums(*args), set()),
}


@pytest.mark.parametrize('name', REPLACEMENTS)
def test_a_replaced_part_of_equation_1_changes_whatever_attends(name, before, params, state, monkeypatch):
    replacement, unchanged = REPLACEMENTS[name]
    monkeypatch.setattr(module, name, replacement)
    after = results(params, state)
    assert {each for each in before if np.array_equal(before[each], after[each])} == unchanged

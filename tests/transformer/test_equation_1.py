"""Equation 1 is what runs: a function that replaces it, or a part of it, changes whatever attends.

Programs are compared as they are traced: nothing needs to be computed.
"""

import re
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

    def first_step(source, target):
        return apply(target, with_room(apply(source, method='start'), 2, 1), method='decode')[1]

    return jax.eval_shape(first_step, BATCH.source[:2], BATCH.target[:2, 0])


def results(params, state):
    """What a tiny model computes by attention, as traced, and how many legs a notebook's animals have."""
    model = Transformer(MODEL)
    loss = lambda params: loss_sums(params, BATCH, jax.random.key(0), model=model, label_smoothing=0.1)

    def traced(function, *arguments):
        return re.sub('0x[0-9a-f]+', '', str(jax.make_jaxpr(function)(*arguments)))

    of_model = lambda method, *rest: traced(partial(model.apply, method=method), {'params': params}, *rest)

    return {
        'training loss': traced(loss, params),
        'encoding': of_model('encode', BATCH.source[:2]),
        'map of attention': of_model('cross_attention', BATCH.source[:2], BATCH.target[:2]),
        'cached step': of_model('decode', BATCH.target[:2, 1], state),
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
    'masked_softmax': (lambda scores, mask=None, dtype=None: jnp.ones_like(scores) / scores.shape[-1], set()),
    'weighted_values': (lambda *args, _sums=module.weighted_values: -_sums(*args), set()),
}


@pytest.mark.parametrize('name', REPLACEMENTS)
def test_a_replaced_part_of_equation_1_changes_whatever_attends(name, before, params, state, monkeypatch):
    replacement, unchanged = REPLACEMENTS[name]
    monkeypatch.setattr(module, name, replacement)
    after = results(params, state)
    assert {each for each in before if np.array_equal(before[each], after[each])} == unchanged

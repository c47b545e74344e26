"""One step: sums over tokens, one global division; and the loop around it."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import copy_config

from flax_transformer.common.errors import UserError
from flax_transformer.config import ParallelConfig, TransformerConfig
from flax_transformer.data.bitext.batches import Batch, make_batch
from flax_transformer.data.bitext.packing import TokenPair
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.loop import Window, fit
from flax_transformer.engine.state import TrainState, init_params
from flax_transformer.engine.step import eval_step, loss_sums, mean_loss, train_step
from flax_transformer.transformer.model import Transformer, shift_right

MODEL = TransformerConfig(
    vocab_size=30, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0
)


def uneven_batch(rows: int = 8, slots: int = 12) -> Batch:
    """Rows with very different numbers of tokens; two of them empty."""
    rng = np.random.default_rng(0)
    sentences = [[*rng.integers(3, 30, n), 1] for n in (1, 9, 3, 2, 5, 4, 10, 1)]
    rows_of = [[0], [1], [2, 3], [], [4], [5, 7], [6], []]
    assert len(rows_of) == rows
    examples = [TokenPair(np.array(sentence), np.array(sentence)) for sentence in sentences]
    return make_batch([[examples[i] for i in row] for row in rows_of], slots, slots, 0)


LOSS = partial(loss_sums, model=Transformer(MODEL), label_smoothing=0.1)


def one_update(strategy: str, num_devices: int, params: Any) -> tuple[Any, dict[str, Any]]:
    """Gradients (by SGD of rate 1) and metrics of the uneven batch."""
    devices = Devices(ParallelConfig(strategy, num_devices))
    tx = optax.sgd(1.0)
    chunked = partial(LOSS, loss_chunk=4 * 8 // num_devices * devices.parts_of_a_step)  # of 12 positions of each row, 4
    step = devices.compile(partial(train_step, loss_fn=chunked, tx=tx))
    state = devices.replicate(TrainState(jnp.int32(0), params, tx.init(params), None))
    new, metrics = step(state, devices.split(uneven_batch()), jax.random.key(0))
    grads = jax.tree.map(lambda old, new: np.asarray(old) - np.asarray(new), params, new.params)
    return grads, jax.device_get(metrics)


@pytest.fixture(scope='module')
def params() -> Any:
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.jit(Transformer(MODEL).init)(jax.random.key(3), tokens, tokens)['params']


@pytest.fixture(scope='module')
def on_one_device(params: Any) -> tuple[Any, dict[str, Any]]:
    (_, sums), grads = jax.jit(jax.value_and_grad(LOSS, has_aux=True))(params, uneven_batch(), None)
    return jax.tree.map(lambda g: g / sums['target_tokens'], grads), sums


@pytest.mark.parametrize(
    ('strategy', 'num_devices'),
    [
        *(('pmap', n) for n in (1, 2, 8)),
        ('mesh', 8),
        pytest.param('pmap', 4, marks=pytest.mark.slow),
        *(pytest.param('mesh', n, marks=pytest.mark.slow) for n in (1, 2, 4)),
    ],
)
def test_gradients_do_not_depend_on_the_devices(
    strategy: str, num_devices: int, params: Any, on_one_device: tuple[Any, dict[str, Any]]
) -> None:
    """PEERS 7: of means of means, uneven rows would show: here two rows of eight are empty."""
    expected_grads, expected = on_one_device
    grads, metrics = one_update(strategy, num_devices, params)
    assert metrics['target_tokens'] == expected['target_tokens'] == 43
    np.testing.assert_allclose(metrics['loss'], expected['loss'], rtol=1e-6)
    # float32 sums in another order: some 1e-7 of the largest term.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6), grads, expected_grads)


def test_gradients_are_those_of_the_mean_over_all_tokens(
    params: Any, on_one_device: tuple[Any, dict[str, Any]]
) -> None:
    batch = uneven_batch()

    def mean(params: Any) -> jax.Array:
        loss, sums = LOSS(params, batch, None)
        return loss / sums['target_tokens']

    expected = jax.grad(mean)(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6), on_one_device[0], expected)


@pytest.mark.parametrize('strategy', ['pmap', 'mesh'])
def test_the_old_state_is_given_away(strategy: str, params: Any) -> None:
    devices = Devices(ParallelConfig(strategy, 2))
    tx = optax.adam(1e-3)
    step = devices.compile(partial(train_step, loss_fn=LOSS, tx=tx), donate_state=True)
    state = devices.replicate(TrainState(jnp.int32(0), jax.tree.map(jnp.copy, params), tx.init(params), None))
    # The first call takes what `replicate` made, later ones what a step made: both must be reused.
    for _ in range(2):
        old, (state, _) = state, step(state, devices.split(uneven_batch()), jax.random.key(0))
        jax.block_until_ready(state)
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves((old.params, old.opt_state)))


def test_rows_that_do_not_divide_among_the_devices_are_refused() -> None:
    with pytest.raises(UserError, match=r'8 rows .* among 3 devices'):
        Devices(ParallelConfig('pmap', 3)).check_rows(8)


def test_more_devices_than_there_are_is_refused() -> None:
    with pytest.raises(UserError, match='num_devices=99: this process sees 8 cpu'):
        Devices(ParallelConfig('pmap', 99))


def test_dropout_differs_from_step_to_step_and_repeats_with_the_seed(params: Any) -> None:
    loss_fn = partial(loss_sums, model=Transformer(replace(MODEL, dropout_rate=0.5)), label_smoothing=0.0)
    tx = optax.sgd(0.0)
    step = jax.jit(partial(train_step, loss_fn=loss_fn, tx=tx))
    state = TrainState(jnp.int32(0), params, tx.init(params), None)
    later, first = step(state, uneven_batch(), jax.random.key(0))
    _, again = step(state, uneven_batch(), jax.random.key(0))
    _, second = step(later, uneven_batch(), jax.random.key(0))
    assert first['loss'] == again['loss']
    assert first['loss'] != second['loss']


def test_moving_average_follows_its_formula(params: Any) -> None:
    tx = optax.sgd(0.5)
    step = jax.jit(partial(train_step, loss_fn=LOSS, tx=tx, ema_decay=0.15))
    state = TrainState(jnp.int32(0), params, tx.init(params), params)
    expected = np.asarray(params['embedding']['table'])
    for number in (1, 2, 3):
        state, _ = step(state, uneven_batch(), jax.random.key(0))
        decay = min(0.15, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * np.asarray(state.params['embedding']['table'])
    np.testing.assert_allclose(state.ema['embedding']['table'], expected, rtol=1e-5, atol=1e-7)
    assert state.params_to_keep is state.ema


def test_batches_of_any_size_give_the_same_mean_loss(params: Any) -> None:
    """Sums over all, one division: the loss of a set does not depend on how it is cut."""
    batch = uneven_batch()
    loss = jax.jit(LOSS)
    whole = mean_loss([loss(params, batch, None)[1]])
    halves = [Batch(*(x[part] for x in batch[:6])) for part in (slice(0, 3), slice(3, 8))]
    split = mean_loss(loss(params, half, None)[1] for half in halves)
    assert whole['loss'] == pytest.approx(split['loss'], rel=1e-6)
    assert whole['perplexity'] == pytest.approx(np.exp(whole['nll']), rel=1e-6)
    unsmoothed, _ = jax.jit(partial(LOSS, label_smoothing=0.0))(params, batch, None)
    assert whole['nll'] == pytest.approx(float(unsmoothed) / 43, rel=1e-6)


def mixed_batch() -> Batch:
    """The uneven batch with sentences of three corpora; rows hold two."""
    batch = uneven_batch()
    corpora = np.where(batch.target_segments == 2, 2, np.arange(8)[:, None] % 2) * (batch.target_segments > 0)
    return batch._replace(corpora=corpora.astype(np.int32))


def test_each_corpus_has_its_own_loss(params: Any) -> None:
    """As if its tokens alone were weighed; together they are all."""
    batch = mixed_batch()
    with_names = jax.jit(partial(LOSS, corpora=('a', 'b', 'c', 'none')))
    loss, sums = jax.device_get(with_names(params, batch, None))
    plain_loss, plain = jax.jit(LOSS)(params, uneven_batch(), None)
    assert loss == plain_loss
    assert plain.keys() == {'loss', 'nll', 'target_tokens', 'source_tokens'}
    logits = jax.jit(Transformer(MODEL).apply)(
        {'params': params},
        batch.source,
        shift_right(batch.target, 0, batch.target_positions),
        source_segments=batch.source_segments,
        target_segments=batch.target_segments,
        source_positions=batch.source_positions,
        target_positions=batch.target_positions,
    )
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    nll = -np.take_along_axis(log_probs, batch.target[..., None], axis=-1)[..., 0]
    for number, name in enumerate('abc'):
        mine = (batch.target_segments > 0) & (batch.corpora == number)
        assert sums[f'target_tokens/{name}'] == mine.sum() > 0
        assert float(sums[f'nll/{name}']) == pytest.approx(nll[mine].sum(), rel=1e-5)
    assert sum(float(sums[f'nll/{name}']) for name in 'abc') == pytest.approx(float(sums['nll']), rel=1e-6)
    means = mean_loss([sums, sums])
    assert means['nll/b'] == pytest.approx(float(sums['nll/b']) / float(sums['target_tokens/b']), rel=1e-6)
    assert 'nll/none' not in means  # of no token there is no mean


@pytest.mark.parametrize('strategy', ['pmap', 'mesh'])
def test_the_losses_of_corpora_do_not_depend_on_the_devices(strategy: str, params: Any) -> None:
    loss_fn = partial(LOSS, corpora=('a', 'b', 'c'))
    devices = Devices(ParallelConfig(strategy, 4))
    compiled = devices.compile(partial(eval_step, loss_fn=loss_fn))
    got = mean_loss([compiled(devices.replicate(params), devices.split(mixed_batch()), jax.random.key(0))])
    expected = mean_loss([jax.jit(loss_fn)(params, mixed_batch(), None)[1]])
    assert {'nll/a', 'nll/b', 'nll/c'} < got.keys() == expected.keys()
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-5)


def test_a_step_in_bfloat16_keeps_parameters_and_sums_in_float32(params: Any) -> None:
    """What `dtype = auto` means on an accelerator."""
    model = Transformer(replace(MODEL, dtype='bfloat16'))
    tx = optax.sgd(1.0)
    state = TrainState(jnp.int32(0), params, tx.init(params), None)
    updates = {}
    for name, loss_fn in (('float32', LOSS), ('bfloat16', partial(loss_sums, model=model, label_smoothing=0.1))):
        new, metrics = jax.jit(partial(train_step, loss_fn=loss_fn, tx=tx))(state, uneven_batch(), jax.random.key(0))
        assert {leaf.dtype for leaf in jax.tree.leaves((new.params, metrics['loss']))} == {jnp.dtype('float32')}
        updates[name] = np.concatenate(
            [np.ravel(a - b) for a, b in zip(*map(jax.tree.leaves, (params, new.params)), strict=True)]
        )
    exact, rounded = updates['float32'], updates['bfloat16']
    # bfloat16 has 8 bits: a few tenths of a percent a product, more where terms cancel.
    assert np.linalg.norm(rounded - exact) < 0.05 * np.linalg.norm(exact)


def equations_of(jaxpr: Any) -> Any:
    """All equations, those of inner functions and loops too."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, 'eqns') or hasattr(x, 'jaxpr')):
            inner = getattr(inner, 'jaxpr', inner)
            if hasattr(inner, 'eqns'):
                yield from equations_of(inner)


def test_in_bfloat16_softmax_norms_logits_and_loss_are_float32_islands(params: Any) -> None:
    """Every exp, log, root and sum on the way is of float32; products are of bfloat16, and logits come in float32."""
    loss_fn = partial(loss_sums, model=Transformer(replace(MODEL, dtype='bfloat16')), label_smoothing=0.1)
    equations = list(equations_of(jax.make_jaxpr(loss_fn)(params, uneven_batch(), None).jaxpr))
    dtypes = lambda name: {str(x.aval.dtype) for each in equations if each.primitive.name == name for x in each.invars}
    assert {'float32'} == dtypes('exp') == dtypes('log') == dtypes('rsqrt')
    assert dtypes('reduce_sum') | dtypes('reduce_max') <= {'float32', 'int32', 'bool'}
    products = [each for each in equations if each.primitive.name == 'dot_general']
    assert {str(x.aval.dtype) for each in products for x in each.invars} == {'bfloat16'}
    logits = [each for each in products if each.outvars[0].aval.shape[-1] == MODEL.vocab_size]
    assert [str(each.outvars[0].aval.dtype) for each in logits] == ['float32']


def test_initial_parameters_depend_on_the_seed_alone(tmp_path: Any) -> None:
    config = copy_config(tmp_path)
    first, again = init_params(config, jax.random.key(1)), init_params(config, jax.random.key(1))
    other = init_params(replace(config, seed=1), jax.random.key(2))
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), first, again)))
    assert not (first['embedding']['table'] == other['embedding']['table']).all()


class RecordedMetric:
    """A number that notes when it is read."""

    def __init__(self, events: list[str], step: int) -> None:
        self.events, self.step = events, step

    def __float__(self) -> float:
        self.events.append(f'read {self.step}')
        return 1.0


class RecordedTrainer:
    def __init__(self, config: Any) -> None:
        self.config, self.events = config, []
        self.learning_rate = lambda step: 0.0

    def step(self, state: TrainState, batch: Any) -> tuple[TrainState, dict[str, Any]]:
        step = state.step + 1
        self.events.append(f'dispatch {step}')
        metrics = dict.fromkeys(('loss', 'nll', 'target_tokens', 'source_tokens', 'grad_norm'), 1.0) | {
            'skipped': False
        }
        return state._replace(step=step), metrics | {'loss': RecordedMetric(self.events, step)}


class SilentReporter:
    def __getattr__(self, _: str) -> Any:
        return lambda *args: None


def test_metrics_are_read_one_step_late(tmp_path: Any) -> None:
    trainer = RecordedTrainer(copy_config(tmp_path, steps=4, log_every=4, evaluate_every=4, checkpoint_every=4))
    state = TrainState(0, None, None, None)
    saved = []
    fit(
        state,
        iter(range(99)),
        trainer,
        save=lambda state, metrics, _: saved.append((state.step, metrics)),
        reporter=SilentReporter(),
        evaluate=lambda state: {'loss': 2.0},
    )
    assert trainer.events == [
        'dispatch 1',
        'dispatch 2',
        'read 1',
        'dispatch 3',
        'read 2',
        'dispatch 4',
        'read 3',
        'read 4',
    ]
    assert saved == [(4, {'validation_loss': 2.0})]


def test_a_window_averages_over_tokens_not_steps() -> None:
    window = Window()
    for loss, tokens in ((10.0, 10.0), (60.0, 20.0)):
        window.add(
            {
                'loss': loss,
                'nll': loss,
                'target_tokens': tokens,
                'source_tokens': tokens,
                'grad_norm': 1.0,
                'skipped': False,
            }
        )
    averages = window.close()
    assert averages['loss'] == pytest.approx(70 / 30)
    assert averages['target_tokens'] == 15
    assert 0 <= averages['data_wait'] <= 1


def test_a_window_tells_the_losses_of_the_corpora_that_came() -> None:
    window = Window()
    common = {'loss': 1.0, 'nll': 9.0, 'target_tokens': 9.0, 'source_tokens': 9.0, 'grad_norm': 1.0, 'skipped': False}
    for a, tokens in ((2.0, 1.0), (10.0, 5.0)):
        window.add(common | {'nll/a': a, 'target_tokens/a': tokens, 'nll/b': 0.0, 'target_tokens/b': 0.0})
    averages = window.close()
    assert averages['nll/a'] == pytest.approx(12 / 6)
    assert 'nll/b' not in averages

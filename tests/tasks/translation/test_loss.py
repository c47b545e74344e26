"""Translation's loss: sums over target tokens, of each corpus, and in chunks of positions."""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from drawn_params import drawn
from fake_devices import tpu_slice
from jax._src.cudnn import fused_attention_stablehlo
from tiny_translation import LOSS, fresh_params, uneven_batch
from tiny_translation import MODEL as TINY
from traced import equations

from flax_transformer.config import Config, DataConfig, ParallelConfig, TrainingConfig, TransformerConfig
from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.losses import cross_entropy
from flax_transformer.engine.step import eval_step
from flax_transformer.engine.trainer import add_up
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.task import TranslationTask, loss_sums, per_token
from flax_transformer.tasks.translation.training import _make_task
from flax_transformer.transformer.flops import forward_flops
from flax_transformer.transformer.model import Transformer, parameter_shapes


@pytest.fixture(scope='module')
def params() -> Any:
    return fresh_params()


evaluate = jax.jit(partial(eval_step, loss=LOSS))


def mean_loss(sums_of_batches: Iterable[Any]) -> dict[str, float]:
    return per_token(add_up(sums_of_batches))


@pytest.mark.slow
def test_batches_of_any_size_give_the_same_mean_loss(params: Any) -> None:
    """Sums over all, one division: the loss of a set does not depend on how it is cut."""
    batch = uneven_batch()
    whole = mean_loss([evaluate(params, batch)])
    halves = [Batch(*(x[part] for x in batch[:6])) for part in (slice(0, 3), slice(3, 8))]
    split = mean_loss(evaluate(params, half) for half in halves)
    assert whole['loss'] == pytest.approx(split['loss'], rel=1e-6)
    assert whole['perplexity'] == pytest.approx(np.exp(whole['nll']), rel=1e-6)
    unsmoothed, _ = jax.jit(partial(LOSS, label_smoothing=0.0))(params, batch, None)
    assert whole['nll'] == pytest.approx(float(unsmoothed) / 43, rel=1e-6)


def test_all_dropouts_of_a_pass_share_one_draw(params: Any) -> None:
    model = Transformer(replace(TINY, dropout_rate=0.1))
    traced = jax.make_jaxpr(lambda key: LOSS(params, uneven_batch(), key, model=model))(jax.random.key(0))
    drawing = [each for each in equations(traced.jaxpr) if each.primitive.name.startswith('random_')]
    keys = [str(each.invars[0].aval.dtype) for each in drawing]
    assert keys.count('key<fry>') == 1
    assert keys.count('key<lowbias32>') > 10


def mixed_batch() -> Batch:
    """The uneven batch with sentences of three corpora; rows hold two."""
    batch = uneven_batch()
    corpora = np.where(batch.target_segments == 2, 2, np.arange(8)[:, None] % 2) * (batch.target_segments > 0)
    return batch._replace(corpora=corpora.astype(np.int32))


def test_each_corpus_has_its_own_loss(params: Any) -> None:
    """As if its tokens alone were weighed; the losses of corpora are held below, in chunks."""
    batch = mixed_batch()
    loss = partial(LOSS, corpora=('a', 'b', 'c', 'none'))
    sums = jax.device_get(jax.jit(partial(eval_step, loss=loss))(params, batch))
    plain = evaluate(params, uneven_batch())
    assert sums['loss'] == plain['loss']
    assert plain.keys() == {'loss', 'nll', 'target_tokens', 'source_tokens'}
    for number, name in enumerate('abc'):
        mine = (batch.target_segments > 0) & (batch.corpora == number)
        assert sums[f'target_tokens/{name}'] == mine.sum() > 0
    assert sum(float(sums[f'nll/{name}']) for name in 'abc') == pytest.approx(float(sums['nll']), rel=1e-6)
    means = mean_loss([sums, sums])
    assert means['nll/b'] == pytest.approx(float(sums['nll/b']) / float(sums['target_tokens/b']), rel=1e-6)
    assert 'nll/none' not in means  # no token has no mean


def test_in_bfloat16_softmax_norms_logits_and_loss_are_float32_islands(params: Any) -> None:
    """Every exp, log, root and sum on the way is of float32; products are of bfloat16, and logits come in float32."""
    loss = partial(loss_sums, model=Transformer(replace(TINY, dtype='bfloat16')), label_smoothing=0.1)
    found = list(equations(jax.make_jaxpr(loss)(params, uneven_batch(), None).jaxpr))
    dtypes = lambda name: {str(x.aval.dtype) for each in found if each.primitive.name == name for x in each.invars}
    assert {'float32'} == dtypes('exp') == dtypes('log') == dtypes('rsqrt')
    assert dtypes('reduce_sum') | dtypes('reduce_max') <= {'float32', 'int32', 'bool'}
    products = [each for each in found if each.primitive.name == 'dot_general']
    assert {str(x.aval.dtype) for each in products for x in each.invars} == {'bfloat16'}
    logits = [each for each in products if each.outvars[0].aval.shape[-1] == TINY.vocab_size]
    assert {str(each.outvars[0].aval.dtype) for each in logits} == {'float32'}


MODEL = TransformerConfig(
    vocab_size=13, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0
)
MODELS = {
    'tied': MODEL,
    'untied, with a bias': replace(MODEL, tie_embeddings='none', logits_bias=True, target_vocab_size=11),
    'as Marian': replace(MODEL, tie_embeddings='target', logits_bias=True, pad_row='neither'),
    'bfloat16': replace(MODEL, dtype='bfloat16'),
}


def a_batch(rows=4, length=10, vocab_size=11):
    """Rows of one sentence each, of different lengths, of three corpora."""
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, length + 1, (rows, 1))
    real = (np.arange(length) < lengths).astype(np.int32)
    ids = rng.integers(2, vocab_size, (rows, length), dtype=np.int32) * real
    places = np.arange(length, dtype=np.int32)[None] * real
    return Batch(ids, ids, real, real, places, places, np.arange(rows * length, dtype=np.int32).reshape(rows, -1) % 3)


@pytest.mark.parametrize(
    ('name', 'multiple'),
    [
        ('as Marian', 1),  # a shared table and a bias
        ('untied, with a bias', 8),
        *(pytest.param(name, 8, marks=pytest.mark.slow) for name in ('tied', 'as Marian', 'bfloat16')),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ('tied', 'untied, with a bias', 'bfloat16')),
    ],
)
def test_in_chunks_losses_and_gradients_are_those_of_the_whole(name, multiple):
    """Of 10 positions, by 4, so that the last chunk is filled up; and so are pieces to a multiple."""
    model, batch = Transformer(MODELS[name]), a_batch()
    params = drawn(parameter_shapes(model.config))
    compute = lambda chunk: jax.device_get(
        jax.jit(
            jax.value_and_grad(
                partial(
                    loss_sums,
                    model=model,
                    label_smoothing=0.1,
                    corpora=('a', 'b', 'c'),
                    loss_chunk=chunk,
                    piece_multiple=multiple,
                ),
                has_aux=True,
            ),
        )(params, batch, None)
    )

    def whole(params):
        """Without chunks and their gradients: the reference."""
        target_in = np.roll(batch.target, 1, axis=1) * (np.arange(10) > 0)
        apply = partial(model.apply, {'params': params}, batch.source, target_in)
        logits = apply(
            source_segments=batch.source_segments,
            target_segments=batch.target_segments,
            source_positions=batch.source_positions,
            target_positions=batch.target_positions,
        )
        smoothed, nll = cross_entropy(logits, batch.target, label_smoothing=0.1)
        real = batch.target_segments
        return (smoothed * real).sum(), [(nll * real * (batch.corpora == number)).sum() for number in range(3)]

    (loss, nll), gradients = jax.jit(jax.value_and_grad(whole, has_aux=True))(params)
    # bfloat16 rounds a gradient of the table in each chunk, not once; float32 sums are in another order.
    close = {'rtol': 0.02, 'atol': 0.05} if name == 'bfloat16' else {'rtol': 1e-4, 'atol': 2e-6}
    (total, sums), got = compute(16)
    np.testing.assert_allclose(total, loss, rtol=1e-6)
    np.testing.assert_allclose([sums[f'nll/{each}'] for each in 'abc'], nll, rtol=1e-5)
    assert sums['nll'] == pytest.approx(sum(map(float, nll)), rel=1e-5)
    assert sums['target_tokens'] == batch.target_segments.sum()
    jax.tree.map(partial(np.testing.assert_allclose, **close), got, gradients)
    assert {leaf.dtype for leaf in jax.tree.leaves(got)} == {np.dtype('float32')}
    evaluate = jax.jit(partial(loss_sums, model=model, label_smoothing=0.1, loss_chunk=16))
    assert float(evaluate(params, batch, None)[0]) == pytest.approx(float(loss), rel=1e-6)  # without gradients


@pytest.mark.slow
def test_chunked_logits_are_never_whole_in_memory():
    """The temporary memory of loss and gradients, as XLA plans it; here logits outweigh the rest."""
    config = replace(MODEL, vocab_size=4000)
    model, batch = Transformer(config), a_batch(8, 64)
    params = parameter_shapes(config)

    def temporary(chunk):
        loss = partial(loss_sums, model=model, label_smoothing=0.1, loss_chunk=chunk)
        compiled = jax.jit(jax.grad(loss, has_aux=True)).lower(params, batch, None).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    whole = temporary(512)
    assert whole > 512 * 4000 * 4
    assert temporary(32) < whole / 4


@pytest.mark.parametrize(('device', 'slots'), [('cpu', 256), ('tpu', 1024)])
@pytest.mark.slow
def test_a_step_has_the_chunk_of_the_devices_it_is_compiled_for(device: str, slots: int) -> None:
    """Which need not be here: `plan` compiles for TPUs on a machine without them."""
    devices = {'cpu': jax.devices()[:1], 'tpu': tpu_slice('v5e:2x2')[:1]}[device]
    config = Config(
        model=replace(MODEL, vocab_size=32_000),
        data=DataConfig(source_length=64, target_length=64),
        training=TrainingConfig(tokens_per_step=4096),
        parallel=ParallelConfig('mesh'),
    )
    task = make_trainer(config, devices).task
    shapes = parameter_shapes(config.model), task.batch_shapes()
    traced = jax.make_jaxpr(lambda params, batch: task.loss(params, batch, None))(*shapes)
    products = (each for each in equations(traced.jaxpr) if each.primitive.name == 'dot_general')
    logits = [each.outvars[0].aval.shape[:-1] for each in products if each.outvars[0].aval.shape[-1] == 32_000]
    assert {math.prod(shape) for shape in logits} == {slots}


DEEPER = TransformerConfig(vocab_size=50, d_model=16, num_heads=4, d_ff=24, num_encoder_layers=2, num_decoder_layers=3)


def test_a_step_counts_all_rows_three_times() -> None:
    config = Config(
        model=DEEPER, data=DataConfig(source_length=7, target_length=5), training=TrainingConfig(tokens_per_step=40)
    )
    row = forward_flops(DEEPER, 7, 5).total
    assert TranslationTask(config).flops_per_step == 3 * 8 * row
    twice = replace(config, training=replace(config.training, r_drop_alpha=1.0))
    assert TranslationTask(twice).flops_per_step == 2 * 3 * 8 * row


@pytest.mark.parametrize(('parallel', 'pieces'), [({}, 64), ({'strategy': 'mesh', 'fsdp': 2}, 13)])
def test_on_gpus_logits_are_of_a_multiple_of_64_pieces(parallel: dict[str, Any], pieces: int) -> None:
    """Unless the table is split over them."""
    task = TranslationTask(Config(model=MODEL, parallel=ParallelConfig(**parallel)), platform='gpu')
    traced = jax.make_jaxpr(lambda params: task.loss(params, a_batch(), None))(parameter_shapes(MODEL))
    products = [each for each in equations(traced.jaxpr) if each.primitive.name == 'dot_general']
    assert products[-1].outvars[0].aval.shape[-1] == pieces


@pytest.mark.parametrize(('capability', 'is_fused'), [('9.0', True), ('7.5', False)])
def test_training_on_a_gpu_has_cudnns_attention_where_it_can(
    capability: str, is_fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_attention_stablehlo, 'check_cudnn_version', lambda: 91000)
    gpu = SimpleNamespace(platform='gpu', compute_capability=capability)
    config = replace(MODEL, head_dim=8)
    task = _make_task(Config(model=config), SimpleNamespace(devices=[gpu], row_parts_per_step=1))
    shapes = parameter_shapes(config)
    traced = jax.make_jaxpr(jax.grad(lambda params: task.loss(params, a_batch(), None)[0]))(shapes)
    names = {each.primitive.name for each in equations(traced.jaxpr)}
    assert any('dot_product_attention' in name for name in names) == is_fused

"""The table of shardings; and one step on any mesh: the same losses and gradients, a state that is really cut."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import copy_config
from jax.sharding import PartitionSpec as P
from tiny_translation import drawn
from toy_processes import NoisyCircle
from toy_task import RECIPE, CircleConfig, draw

from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import named_leaves
from flax_transformer.config import Config, ParallelConfig, TransformerConfig
from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.devices.sharding import bytes_per_device, divisible_spec, replicated_despite_rule, spec_of
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.step import make_passes
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.task import TranslationTask
from flax_transformer.transformer.model import parameter_shapes
from flax_transformer.transformer.sharding_rules import SHARDING_RULES

MODEL = TransformerConfig(
    vocab_size=24, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.0
)
MESHES = {
    'one device': ParallelConfig('mesh', 1),
    'pmap': ParallelConfig('pmap', 8),
    '1x8x1': ParallelConfig('mesh', 8, data=1, fsdp=8),
    '2x2x2': ParallelConfig('mesh', 8, fsdp=2, tensor=2),
}


def config_of(parallel: ParallelConfig, **optimizer: Any) -> Config:
    """A step of 16 rows of 32 slots."""
    config = replace(copy_config(Path(), tokens_per_step=16 * 32), model=MODEL, parallel=parallel)
    return replace(config, optimizer=replace(config.optimizer, **({'ema_decay': 0.9} | optimizer)))


@cache
def trainer_of(mesh: str) -> Trainer:
    """Shared, so that each of its programs is compiled once."""
    return make_trainer(config_of(MESHES[mesh]))


def uneven_batch() -> Batch:
    """16 rows of no sentence, one or two: on 8 devices some have next to nothing to do."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 20, (16, 1)), rng.integers(0, 12, (16, 1))
    first[[3, 4, 9]] = second[[3, 4, 9]] = 0
    places = np.arange(32)[None]
    segments = np.where(places < first, 1, np.where(places < first + second, 2, 0)).astype(np.int32)
    positions = np.where(segments == 2, places - first, np.where(segments == 1, places, 0)).astype(np.int32)
    ids = (rng.integers(2, 24, (16, 32)) * (segments > 0)).astype(np.int32)
    return Batch(ids, ids, segments, segments, positions, positions)


def test_every_parameter_of_every_model_has_a_rule() -> None:
    """Also those that departures from the paper add; and no rule is idle."""
    used = set()
    for model in (
        MODEL,
        replace(MODEL, tie_embeddings='none', logits_bias=True, attention_bias=True, norm_first=True),
        replace(MODEL, tie_embeddings='target', positions='learned', attention_score='additive'),
    ):
        for path, leaf in named_leaves(parameter_shapes(model)):
            assert len(spec_of(path, leaf.shape, SHARDING_RULES)) <= leaf.ndim
            used.add(next(pattern for pattern, _ in SHARDING_RULES if re.search(rf'(^|[/_]){pattern}$', path)))
    assert used == {pattern for pattern, _ in SHARDING_RULES}


def test_what_no_rule_matches_is_an_error_with_path_shape_and_table() -> None:
    for path, shape in (('encoder/layers_0/mixer/kernel', (4, 8)), ('embedding/table', (24,)), ('xprojection', (2, 2))):
        with pytest.raises(UserError, match=rf'matches {path} {re.escape(str(shape))}.*\n  embedding/table .*tensor'):
            spec_of(path, shape, SHARDING_RULES)


def test_what_does_not_divide_stays_whole_and_is_reported() -> None:
    mesh = Devices(ParallelConfig('mesh', 8, fsdp=2, tensor=4)).mesh
    assert divisible_spec(P('tensor', 'fsdp'), (22, 16), mesh) == P(None, 'fsdp')
    assert replicated_despite_rule({'embedding': {'table': np.zeros((22, 16))}}, mesh, SHARDING_RULES) == [
        'embedding/table (22, 16): 22 along dimension 0, tensor has 4'
    ]


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        ({'strategy': 'pmap', 'fsdp': 2}, "fsdp=2 has no effect with strategy='pmap'"),
        ({'sum_gradients_in': 'bfloat16'}, "sum_gradients_in='bfloat16' has no effect with strategy='mesh'"),
        ({'num_devices': 8, 'fsdp': 3}, r'num_devices=8: expected data \* fsdp \* tensor = 3 or a multiple'),
        ({'num_devices': 8, 'data': 2, 'fsdp': 2}, r'num_devices=8: expected data \* fsdp \* tensor = 4$'),
    ],
)
def test_axes_that_do_not_make_up_the_devices_are_refused(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        ParallelConfig(**{'strategy': 'mesh'} | values)


def test_devices_that_are_not_there_are_told_with_the_mesh() -> None:
    with pytest.raises(UserError, match='tensor=3: a mesh of 6 devices, but there are 8'):
        Devices(ParallelConfig('mesh', tensor=3), jax.devices())


@pytest.mark.parametrize(('name', 'moments'), [('adam', {'mu', 'nu'}), ('lion', {'mu'}), ('adafactor', set())])
def test_moments_are_cut_as_their_parameters(name: str, moments: set[str]) -> None:
    """Adafactor's are vectors, of rows and of columns: they stay whole. Counts, too."""
    config = config_of(MESHES['2x2x2'], name=name)
    trainer = make_trainer(replace(config, model=replace(MODEL, d_model=128, d_ff=256)))  # large enough to be factored
    leaves = {path: sharding.spec for path, sharding in named_leaves(trainer.shardings)}
    kernel = '/decoder/layers_0/feed_forward/inner/kernel'
    cut = {path.removesuffix(kernel).split('/')[-1] for path, spec in leaves.items() if path.endswith(kernel) and spec}
    assert cut == {'params', 'ema'} | moments
    counts = [spec for path, spec in leaves.items() if path.endswith('count')]
    assert counts
    assert not any(counts)


@pytest.fixture(scope='module')
def params() -> Any:
    return jax.device_get(drawn(parameter_shapes(MODEL)))


@pytest.fixture(scope='module')
def computed(params: Any) -> Callable[[str], Any]:
    """A function of a mesh's name: gradients and sums of the uneven batch."""

    @cache
    def on(name: str) -> Any:
        trainer = trainer_of(name)
        return jax.device_get(trainer.gradients(trainer.init_state(params), uneven_batch()))

    return on


@pytest.mark.parametrize('name', ['pmap', '2x2x2'])
@pytest.mark.slow_cases('2x2x2')
def test_losses_and_gradients_do_not_depend_on_the_mesh(name: str, computed: Callable[[str], Any]) -> None:
    (grads, sums), (expected_grads, expected) = computed(name), computed('one device')
    assert sums['target_tokens'] == expected['target_tokens'] == (uneven_batch().target_segments > 0).sum()
    np.testing.assert_allclose(sums['loss'], expected['loss'], rtol=1e-6)
    # float32 sums in another order: some 1e-7 of the largest term.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-7), grads, expected_grads)


@pytest.mark.slow
def test_the_state_is_really_cut(params: Any) -> None:
    """Bytes of the arrays that lie on each device after a step, moments and average included."""

    trainer = trainer_of('2x2x2')
    state, _ = trainer.step(trainer.init_state(params), uneven_batch())
    on: dict[Any, int] = {}
    for leaf in jax.tree.leaves(state):
        for shard in leaf.addressable_shards:
            on[shard.device] = on.get(shard.device, 0) + shard.data.nbytes
    (each,) = set(on.values())
    assert each == bytes_per_device(state) == bytes_per_device(trainer.shapes)
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    # Vectors stay whole: of this tiny model they are much.
    vectors = sum(leaf.nbytes for leaf in jax.tree.leaves(state) if leaf.ndim < 2)
    assert bytes_per_device(trainer_of('1x8x1').shapes) == (whole - vectors) // 8 + vectors
    assert (whole - vectors) // 4 < each < (whole - vectors) // 4 + vectors  # inner/bias is cut along tensor


def test_a_checkpoint_is_read_by_every_mesh(params: Any, tmp_path: Path) -> None:
    """Saved under one, restored under the others: the same arrays, placed as the mesh wants them."""
    state = trainer_of('2x2x2').init_state(params)
    checkpoints = Checkpoints(tmp_path / 'checkpoints')
    checkpoints.save(state, {}, {})
    checkpoints.wait()
    for mesh in ('pmap', '1x8x1'):
        trainer = trainer_of(mesh)
        restored, _ = checkpoints.restore(trainer.shapes)
        jax.tree.map(np.testing.assert_array_equal, restored, state)
        same = jax.tree.map(lambda a, b: a.sharding.is_equivalent_to(b, a.ndim), restored, trainer.shardings)
        assert all(jax.tree.leaves(same))
    checkpoints.close()


def test_a_fresh_state_does_not_depend_on_the_mesh() -> None:
    noisy = declare(NoisyCircle)
    one, cut = (noisy.trainer(CircleConfig(parallel=MESHES[name])).init_state() for name in ('one device', '2x2x2'))
    assert any(sharding.spec for _, sharding in named_leaves(jax.tree.map(lambda x: x.sharding, cut.params)))
    jax.tree.map(np.testing.assert_array_equal, one, cut)


@pytest.mark.slow
def test_passes_add_up_to_the_batch(computed: Callable[[str], Any], params: Any) -> None:
    trainer = make_trainer(config_of(replace(MESHES['2x2x2'], max_tokens_per_device=32)))
    assert trainer.passes.count == 4
    grads, sums = trainer.gradients(trainer.init_state(params), uneven_batch())
    expected_grads, expected_sums = computed('2x2x2')
    assert sums['target_tokens'] == expected_sums['target_tokens']
    np.testing.assert_allclose(sums['loss'], expected_sums['loss'], rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-7), grads, expected_grads)
    kernel = grads['encoder']['layers_0']['feed_forward']['inner']['kernel']
    assert kernel.sharding.spec == P('fsdp', 'tensor')


@pytest.mark.slow
def test_devices_sum_rounded_gradients_and_exact_losses() -> None:
    def compute(dtype: str) -> tuple[Any, Any]:
        trainer = RECIPE.trainer(CircleConfig(parallel=ParallelConfig('pmap', 8, sum_gradients_in=dtype)))
        return jax.device_get(trainer.gradients(trainer.init_state(), draw(4)))

    (exact, sums), (rounded, same_sums) = compute('float32'), compute('bfloat16')
    assert sums == same_sums
    for name, gradient in exact.items():
        assert 0 < np.abs(rounded[name] - gradient).max() < 2**-6 * np.abs(gradient).max()


def test_a_batch_that_fits_is_one_pass_and_a_row_that_does_not_is_refused() -> None:
    config = config_of(ParallelConfig('pmap', 8, max_tokens_per_device=64))
    assert make_passes(TranslationTask(config), Devices(config.parallel), 64, None) is None
    assert make_passes(TranslationTask(config), Devices(config.parallel), 63, None).count == 2
    with pytest.raises(UserError, match=r'max_tokens_per_device=31: expected at least data\.target_length=32'):
        config_of(ParallelConfig(max_tokens_per_device=31))


@pytest.mark.slow
def test_passes_draw_other_noise() -> None:
    """Each pass has random numbers of its own: the same rows in the second are not treated alike."""
    trainer = declare(NoisyCircle).trainer(CircleConfig(parallel=ParallelConfig('mesh', 1, max_tokens_per_device=20)))
    state = trainer.init_state()
    half = jax.tree.map(lambda x: np.concatenate([x[:20], np.zeros_like(x[20:])]), draw(4))
    other = jax.tree.map(lambda x: np.concatenate([x[20:], x[:20]]), half)
    (_, first), (_, second) = trainer.gradients(state, half), trainer.gradients(state, other)
    assert first['weight'] == second['weight'] == 20
    assert first['loss'] != second['loss']


@pytest.mark.slow
def test_remat_changes_memory_alone(params: Any) -> None:
    """Not the parameters' paths, and of losses and gradients the last bits; the same units are dropped."""
    found = {}
    for remat in ('none', 'layers'):
        config = config_of(ParallelConfig('mesh', 1, remat=remat))
        trainer = make_trainer(replace(config, model=replace(MODEL, dropout_rate=0.3)))
        assert {path for path, _ in named_leaves(trainer.shapes.params)} == {path for path, _ in named_leaves(params)}
        found[remat] = trainer.gradients(trainer.init_state(params), uneven_batch())
    (grads, sums), (expected_grads, expected_sums) = found['layers'], found['none']
    np.testing.assert_allclose(sums['loss'], expected_sums['loss'], rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-7), grads, expected_grads)

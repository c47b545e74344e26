"""What a step will take: from HLO written by hand, from steps compiled here, and for TPUs where libtpu is."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax.experimental.topologies
import pytest
from conftest import copy_config

from flax_transformer.cli import main
from flax_transformer.cli.plan import lines_of
from flax_transformer.common.config_files import load_config
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config
from flax_transformer.cost import chips as topologies
from flax_transformer.cost.chips import TPUS, peak_flops
from flax_transformer.cost.hlo import read_program
from flax_transformer.cost.step_cost import StepCost, nearest_fit, step_cost
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.run import Run
from flax_transformer.transformer.flops import forward_flops

NOWHERE = Path('there/is/no/corpus')
# A loop of 5 turns around a gather over 4 devices; then a sum over 8; one scatter as TPUs write it.
HLO = """
HloModule jit_step

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%begins (x: bf16[4,8]) -> bf16[16,8] {
  %x = bf16[4,8]{1,0} parameter(0)
  ROOT %gather.1 = bf16[16,8]{1,0} all-gather(%x), channel_id=3, replica_groups=[2,4]<=[8], dimensions={0}
}

%ends (x.2: bf16[4,8]) -> bf16[16,8] {
  %x.2 = bf16[4,8]{1,0} parameter(0)
  ROOT %gather.2 = bf16[16,8]{1,0:S(1)} all-gather(%x.2), channel_id=3, replica_groups=[2,4]<=[8], dimensions={0}
}

%body (carry: (s32[], bf16[4,8])) -> (s32[], bf16[4,8]) {
  %carry = (s32[], bf16[4,8]{1,0}) parameter(0)
  %mine = bf16[4,8]{1,0} get-tuple-element(%carry), index=1
  %all = bf16[16,8]{1,0} fusion(%mine), kind=kCustom, calls=%begins
  %all.2 = bf16[16,8]{1,0:S(1)} fusion(%mine), kind=kCustom, calls=%ends
  ROOT %next = (s32[], bf16[4,8]{1,0}) tuple(%mine, %mine)
}

%condition (carry.2: (s32[], bf16[4,8])) -> pred[] {
  %turns = s32[] constant(5)
  %carry.2 = (s32[], bf16[4,8]{1,0}) parameter(0)
  %turn = s32[] get-tuple-element(%carry.2), index=0
  ROOT %less = pred[] compare(%turn, %turns), direction=LT
}

%all-reduce-scatter.1.clone (y: f32[64]) -> f32[8] {
  %y = f32[64]{0} parameter(0)
  %whole = f32[64]{0} all-reduce(%y), channel_id=9, replica_groups=[1,8]<=[8], to_apply=%add
  ROOT %part = f32[8]{0} slice(%whole), slice={[0:8]}
}

ENTRY %main (p: f32[10,10], q: f32[64], r: (s32[], bf16[4,8])) -> f32[10,10] {
  %p = f32[10,10]{1,0} parameter(0)
  %q = f32[64]{0} parameter(1)
  %r = (s32[], bf16[4,8]{1,0}) parameter(2)
  %loop = (s32[], bf16[4,8]{1,0}) while(%r), condition=%condition, body=%body
  %own = f32[8]{0} fusion(%q), kind=kCustom, calls=%all-reduce-scatter.1.clone
  %start = ((f32[1], f32[2]), (f32[8], f32[16])) all-gather-start(%q, %q), channel_id=6, replica_groups=[1,8]<=[8]
  %sum = ((f32[10,10]{1,0}), f32[10,10]{1,0}) all-reduce-start(%p), channel_id=7, replica_groups={{0,1}}, to_apply=%add
  %alone = f32[10,10]{1,0} all-reduce(%p), channel_id=5, replica_groups={{0},{1}}, to_apply=%add
  ROOT %total = f32[10,10]{1,0} all-reduce(%p), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%add
}
"""


def test_collectives_are_counted_as_often_as_loops_turn() -> None:
    found = {each.kind: each for each in read_program(HLO).collectives}
    assert found.keys() == {'all-gather', 'all-reduce', 'reduce-scatter'}
    # 16 x 8 bfloat16 in each of 5 turns, of which a device sends 3 of 4 parts; both fusions are one gather. Then 24
    # float32 of 8 devices.
    assert found['all-gather'][1:] == (6, 5 * 256 + 96, 5 * 256 * 3 / 4 + 96 * 7 / 8)
    # 400 over two devices and over eight; what is summed over one device is not exchanged.
    assert found['all-reduce'][1:] == (2, 800, 2 * 400 * 1 / 2 + 2 * 400 * 7 / 8)
    assert found['reduce-scatter'][1:] == (1, 256, 256 * 7 / 8)


def test_memory_traffic_leaves_out_what_stays_on_the_chip() -> None:
    # In each turn two fusions read 64 bytes, and one writes 256; the scatter 256 + 32; the second gather twice 256 and
    # 96; three sums 400 + 400 each.
    assert read_program(HLO).memory_bytes == 5 * (2 * 64 + 256) + 288 + 608 + 3 * 800


# Scores that are computed on the chip from what is copied there, and copied back.
MOVES = """
ENTRY %main (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  %there = (f32[8,8]{1,0:S(1)}, f32[8,8]{1,0}, u32[]{:S(2)}) copy-start(%p)
  %all = f32[8,8]{1,0:S(1)} copy-done(%there)
  %cut = ((f32[8,8]{1,0}), f32[4,8]{1,0:S(1)}, s32[]{:S(2)}) slice-start(%p), slice={[0:4], [0:8]}
  %half = f32[4,8]{1,0:S(1)} slice-done(%cut)
  %halves = f32[8,8]{1,0:S(1)} custom-call(%half, %half), custom_call_target="ConcatBitcast"
  %scores = f32[8,8]{1,0:S(1)} add(%all, %halves), metadata={op_name="jit(f)/self_attention/add"}
  %back = (f32[8,8]{1,0}, f32[8,8]{1,0:S(1)}, u32[]{:S(2)}) copy-start(%scores)
  ROOT %result = f32[8,8]{1,0} copy-done(%back)
}
"""


def test_copies_to_the_chip_and_back_count_as_what_reads_or_writes_them_there() -> None:
    assert read_program(MOVES).traffic == {'attention': 256 + 132 + 256}


# A fusion that reads two rows of its first operand, all of its second, and writes one row of its third in place.
PARTS = """
%fused (x: f32[100,8], y: f32[8], z: f32[50,8], i: s32[]) -> (f32[2,8], f32[50,8]) {
  %x = f32[100,8]{1,0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %z = f32[50,8]{1,0} parameter(2)
  %i = s32[] parameter(3)
  %flat = f32[100,8]{1,0} bitcast(%x)
  %rows = f32[2,8]{1,0} dynamic-slice(%flat, %i, %i), dynamic_slice_sizes={2,8}
  %wide = f32[2,8]{1,0} broadcast(%y), dimensions={1}
  %sum = f32[2,8]{1,0} add(%rows, %wide)
  %row = f32[1,8]{1,0} slice(%sum), slice={[0:1], [0:8]}
  %new = f32[50,8]{1,0} dynamic-update-slice(%z, %row, %i, %i)
  ROOT %both = (f32[2,8]{1,0}, f32[50,8]{1,0}) tuple(%sum, %new)
}

ENTRY %main (x.1: f32[100,8], y.1: f32[8], z.1: f32[50,8], i.1: s32[]) -> (f32[2,8], f32[50,8]) {
  %x.1 = f32[100,8]{1,0} parameter(0)
  %y.1 = f32[8]{0} parameter(1)
  %z.1 = f32[50,8]{1,0} parameter(2)
  %i.1 = s32[] parameter(3)
  ROOT %result = (f32[2,8]{1,0}, f32[50,8]{1,0}) fusion(%x.1, %y.1, %z.1, %i.1), kind=kLoop, calls=%fused
}
"""


def test_a_fusion_moves_what_it_cuts_out_and_writes_in_place_not_the_whole() -> None:
    # Reads 64, 32, nothing and the index, 4 bytes; writes 64 and 32.
    assert read_program(PARTS).traffic == {'other': 64 + 32 + 4 + 64 + 32}


# A fusion that sums its first operand over four parts and keeps a third; one that converts all of its operand; one that
# updates a row of it in place, and one a row of what it has converted.
SUMS = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%cut (x: f32[4,10,6], zero: f32[]) -> bf16[10,2] {
  %x = f32[4,10,6]{2,1,0} parameter(0)
  %zero = f32[] parameter(1)
  %sums = f32[10,6]{1,0} reduce(%x, %zero), dimensions={0}, to_apply=%add
  %rounded = bf16[10,6]{1,0} convert(%sums)
  ROOT %third = bf16[10,2]{1,0} slice(%rounded), slice={[0:10], [2:4]}
}

%whole (y: f32[10,6]) -> bf16[10,6] {
  %y = f32[10,6]{1,0} parameter(0)
  ROOT %all = bf16[10,6]{1,0} convert(%y)
}

%in_place (z: f32[100], row: f32[2], i: s32[]) -> f32[10,10] {
  %z = f32[100]{0} parameter(0)
  %row = f32[2]{0} parameter(1)
  %i = s32[] parameter(2)
  %updated = f32[100]{0} dynamic-update-slice(%z, %row, %i)
  ROOT %square = f32[10,10]{1,0} bitcast(%updated)
}

%anew (z.2: f32[100], row.2: bf16[2], i.2: s32[]) -> bf16[100] {
  %z.2 = f32[100]{0} parameter(0)
  %row.2 = bf16[2]{0} parameter(1)
  %i.2 = s32[] parameter(2)
  %new = bf16[100]{0} convert(%z.2)
  ROOT %updated.2 = bf16[100]{0} dynamic-update-slice(%new, %row.2, %i.2)
}

ENTRY %main (x.1: f32[4,10,6], y.1: f32[10,6], z.1: f32[100], row.1: f32[2], row.3: bf16[2], i.1: s32[]) -> bf16[10,2] {
  %x.1 = f32[4,10,6]{2,1,0} parameter(0)
  %y.1 = f32[10,6]{1,0} parameter(1)
  %z.1 = f32[100]{0} parameter(2)
  %row.1 = f32[2]{0} parameter(3)
  %row.3 = bf16[2]{0} parameter(4)
  %i.1 = s32[] parameter(5)
  %zero.1 = f32[] constant(0)
  %first = f32[10,10]{1,0} fusion(%z.1, %row.1, %i.1), kind=kLoop, calls=%in_place
  %second = bf16[100]{0} fusion(%z.1, %row.3, %i.1), kind=kLoop, calls=%anew
  %converted = bf16[10,6]{1,0} fusion(%y.1), kind=kLoop, calls=%whole
  ROOT %result = bf16[10,2]{1,0} fusion(%x.1, %zero.1), kind=kLoop, calls=%cut
}
"""


def test_of_what_is_summed_and_then_cut_only_a_part_is_read() -> None:
    cut, whole = 4 * 10 * 2 * 4 + 4 + 10 * 2 * 2, 10 * 6 * 4 + 10 * 6 * 2
    # Each reads the row and the index and writes the row; only one reads the 100 numbers.
    in_place, anew = 8 + 4 + 8, 400 + 4 + 4 + 4
    assert read_program(SUMS).memory_bytes == cut + whole + in_place + anew


def config_of(**parallel) -> Config:
    config = copy_config(NOWHERE, tokens_per_step=2048)
    return replace(config, parallel=replace(config.parallel, **parallel))


@pytest.fixture(scope='module')
def by_pmap() -> StepCost:
    return step_cost(make_trainer(config_of(num_devices=8)))


@pytest.fixture(scope='module')
def by_fsdp() -> StepCost:
    return step_cost(make_trainer(config_of(strategy='mesh', fsdp=8)))


def parameters_of(d_model: int, d_ff: int, vocab_size: int, layers: int) -> int:
    """By hand: encoder 4 d^2, decoder 8 d^2, feed-forward with biases, two vectors a norm, one table."""
    attention, feed_forward = 4 * d_model**2, 2 * d_model * d_ff + d_ff + d_model
    return vocab_size * d_model + layers * (3 * attention + 2 * feed_forward + 5 * 2 * d_model)


@pytest.mark.slow
def test_data_parallel_training_sums_all_gradients_once(by_pmap: StepCost) -> None:
    parameters = parameters_of(32, 64, 20, 1)
    assert by_pmap.parameters == parameters
    assert (by_pmap.rows_per_device, by_pmap.passes, by_pmap.mesh['data']) == (8, 1, 8)
    (reduced,) = by_pmap.collectives
    assert reduced.kind == 'all-reduce'
    assert 4 * parameters <= reduced.bytes <= 4 * parameters + 64  # and a few sums over tokens
    assert reduced.sent == pytest.approx(2 * 7 / 8 * reduced.bytes)
    assert (by_pmap.memory.parameters, by_pmap.memory.average) == (4 * parameters, 0)
    assert by_pmap.memory.optimizer == pytest.approx(8 * parameters, abs=64)
    row = forward_flops(copy_config(NOWHERE).model, 32, 32).total
    assert by_pmap.flops == 3 * 8 * row
    assert by_pmap.fits is None  # how much a CPU may take nobody knows
    assert by_pmap.times is None
    assert {'products', 'attention', 'loss'} < by_pmap.traffic.keys()
    assert sum(by_pmap.traffic.values()) == by_pmap.memory_traffic


@pytest.mark.slow
def test_fsdp_cuts_what_stays_and_gathers_it(by_pmap: StepCost, by_fsdp: StepCost) -> None:
    assert by_fsdp.mesh == {'data': 1, 'fsdp': 8, 'tensor': 1}
    assert by_fsdp.memory.parameters < by_pmap.memory.parameters / 4
    assert by_fsdp.memory.optimizer < by_pmap.memory.optimizer / 4
    gathered = next(each for each in by_fsdp.collectives if each.kind == 'all-gather')
    assert gathered.count >= 11  # products: queries, keys and values share one


@pytest.mark.slow
def test_a_step_that_does_not_fit_says_so_and_what_would(by_pmap: StepCost) -> None:
    config = config_of(num_devices=8)
    make = lambda parallel: make_trainer(replace(config, parallel=parallel))
    tight = replace(by_pmap, memory=replace(by_pmap.memory, available=by_pmap.memory.total - 1))
    assert tight.fits is False
    changes, found = nearest_fit(make, config.parallel, tight, available=tight.memory.available)
    assert changes == {'max_tokens_per_device': 4 * 32}
    assert (found.passes, found.fits) == (2, True)
    assert found.memory.total < by_pmap.memory.total


@pytest.mark.slow
def test_a_program_that_cannot_be_read_still_has_its_memory(by_pmap: StepCost, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> str:
        raise jax.errors.JaxRuntimeError('INTERNAL: async-update instruction should have 1 operands but sees 3')

    monkeypatch.setattr(jax.stages.Compiled, 'as_text', fail)
    cost = step_cost(make_trainer(config_of(num_devices=8)))
    assert (cost.collectives, cost.memory_traffic, cost.times) == (None, None, None)
    assert cost.memory == by_pmap.memory
    assert 'No exchanges' in '\n'.join(lines_of(cost))


@pytest.mark.slow
def test_plan_prints_one_line_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run(tmp_path / 'run').open(config_of())
    assert (
        main(['plan', str(tmp_path / 'run'), '--memory', '1', '--format', 'json', '--parallel.num-devices', '8']) == 0
    )
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found['fits'], found['num_devices'], found['memory']['available']) == (True, 8, 1e9)
    assert found['collectives'][0]['kind'] == 'all-reduce'


@pytest.mark.slow
def test_show_needs_no_corpus_and_counts_every_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['show', 'wmt14_en_de_big', '--no-compile', '--data.root', str(NOWHERE)]) == 0
    shown = capsys.readouterr().out
    assert f'{parameters_of(1024, 4096, 37_000, 6):,}  in total' in shown
    assert ', at step 4,000' in shown
    assert '192 rows of 128 + 128 slots' in shown


def test_an_unknown_topology_is_told_the_known_ones() -> None:
    with pytest.raises(UserError, match=r'mean .*v5e:4x4') as raised:
        topologies.topology_devices('v5e:4x5')
    assert all(f' {name}:' in str(raised.value) for name in ('v4', 'v5p', 'v6e'))


@pytest.mark.parametrize(('name', 'command'), [('v5p:2x2x1', 'pip install libtpu'), ('h100:8', r'pip install .*cuda')])
def test_a_missing_compiler_is_told_with_its_command(name: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, '_is_installed', lambda _: False)
    with pytest.raises(UserError, match=command):
        topologies.topology_devices(name)


@pytest.mark.parametrize('names', ['cuda13 nvidia-cuda-nvcc cu13', 'cuda12 nvidia-cuda-nvcc-cu12 cu12'])
def test_either_cuda_compiles_for_gpus(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version, compiler, short = names.split()
    installed = {f'jax-{version}-plugin', f'jax-{version}-pjrt', compiler, f'nvidia-cudnn-{short}'}
    monkeypatch.setattr(topologies, '_is_installed', installed.__contains__)
    monkeypatch.setattr(jax.experimental.topologies, 'get_topology_desc', lambda *_, **__: SimpleNamespace(devices=[1]))
    assert topologies.topology_devices('h100:8') == [1]


needs_compiler = pytest.mark.skipif(importlib.util.find_spec('libtpu') is None, reason='libtpu is not installed')


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize('name', ['v5e:4x4', 'v5p:2x2x1'])
def test_the_papers_big_model_on_tpus(name: str) -> None:
    """Each takes minutes to compile."""
    topologies.prepare_compiler()
    jax.config.update('jax_disable_most_optimizations', False)
    config = load_config('wmt14_en_de_big')
    cost = step_cost(make_trainer(config, topologies.topology_devices(name)))
    parameters = parameters_of(1024, 4096, 37_000, 6)
    assert cost.parameters == parameters
    assert cost.memory.parameters == 4 * parameters
    assert cost.memory.optimizer == pytest.approx(8 * parameters, abs=64)
    assert cost.flops * cost.num_devices == pytest.approx(3 * 192 * forward_flops(config.model, 128, 128).total)
    assert cost.fits
    # XLA counts elementwise operations too, but of the loss's loop one turn.
    assert 0.8 < cost.compiled_flops / cost.flops < 1.2
    if cost.collectives is None:
        pytest.skip('jaxlib cannot read what this libtpu made; memory and FLOPs are as they should be')
    summed = sum(each.bytes for each in cost.collectives)
    assert 2 * parameters <= summed <= 4.4 * parameters
    assert 0 < cost.utilization <= 1


def test_peaks_are_known_by_the_names_that_jax_gives() -> None:
    assert peak_flops('TPU v5 lite') == TPUS['v5e'].flops == 197e12
    assert peak_flops('NVIDIA H100 80GB HBM3') == 989e12
    assert peak_flops('NVIDIA H100 80GB HBM3', 'float32') is None
    assert peak_flops('cpu') is None

"""CTranslate2 in the place of our search: the same greedy translations, and by name what it cannot do.

What runs it is skipped where it is not installed; what refuses is not.
"""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import TESTS
from drawn_params import drawn

from flax_transformer import Translator
from flax_transformer.cli.translate import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.interop.ctranslate2 import WITHOUT_COUNTERPART, CTranslate2Translator, check, write
from flax_transformer.ops.int8 import has_int8
from flax_transformer.tasks.translation.inference import programs
from flax_transformer.transformer.model import Transformer, parameter_shapes

RUN = TESTS / 'golden' / 'number_words'
LINES = ['one', '', 'twenty-one', 'three hundred and thirty-three', '   ', 'nine hundred and ninety-nine']
SMALL = TransformerConfig(
    vocab_size=40, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=2, pad_id=0, eos_id=1
)
POWER = DecodingConfig(length_penalty='power')


@pytest.fixture(scope='module')
def golden() -> Translator:
    return Translator.from_run(RUN, beam_width=1, force_eos=False, renormalize=True)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    return tmp_path / 'cache' / 'flax_transformer' / 'ctranslate2'


CHANGED = {
    'search': 'sample',
    'force_eos': True,
    'word_reward': 0.5,
    'coverage_penalty': 0.2,
    'groups': 2,
    'mbr': 'chrf',
    'pass_over': 'loops_and_copies',
}


@pytest.mark.parametrize('name', [*WITHOUT_COUNTERPART, 'pass_over'])
def test_what_its_search_cannot_do_is_refused_by_name(name):
    with pytest.raises(UserError, match=f'decoding.{name}='):
        check(SMALL, replace(POWER, **{name: CHANGED[name]}))


@pytest.mark.parametrize(
    ('name', 'value'),
    [('head_dim', 4), ('pad_row', 'both'), ('norm', 'rms')],
)
def test_what_the_format_cannot_hold_is_refused_by_name(name, value):
    check(SMALL, POWER)
    with pytest.raises(UserError, match=f'model.{name}={value!r}'):
        check(replace(SMALL, **{name: value}), POWER)


def test_another_length_penalty_matters_to_beams_alone():
    with pytest.raises(UserError, match="length_penalty='gnmt'"):
        check(SMALL, DecodingConfig())
    check(SMALL, DecodingConfig(beam_width=1))


@pytest.mark.slow
def test_an_ensemble_is_refused_and_what_only_our_search_can_do_is_done_by_it(golden, monkeypatch):
    ensemble = Translator([golden.model.config] * 2, (golden.params,) * 2, golden.tokenizer, golden.decoding)
    with pytest.raises(UserError, match='an ensemble of 2 runs'):
        CTranslate2Translator.of(ensemble)
    monkeypatch.setitem(sys.modules, 'ctranslate2', sys)  # not needed for these
    fast = CTranslate2Translator.of(golden)
    for wish in ({'prefixes': ['eins']}, {'alignment': True}):
        assert fast(['one'], **wish) == golden(['one'], **wish)


def test_what_auto_would_do_in_int8_is_done_in_float32(golden, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ctranslate2', sys)
    monkeypatch.setattr(programs, 'fastest_int8', lambda: 'uint8')
    monkeypatch.setattr(programs, 'is_measured', lambda: True)
    monkeypatch.setattr(Transformer, 'supports_batch_invariance', True)
    translator = golden.with_decoding(replace(golden.decoding, weights='auto'))
    made = CTranslate2Translator.of(translator)
    assert [has_int8(one.weights) for one in (translator, made)] == [True, False]
    jax.tree.map(np.testing.assert_array_equal, made.params, golden.params)


def test_another_search_or_other_parameters_keep_its_engine(golden, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ctranslate2', sys)
    fast = CTranslate2Translator.of(golden, 'int8')
    wide = fast.with_decoding(replace(golden.decoding, beam_width=2, length_penalty='none'))
    other = fast.with_params(jax.tree.map(np.zeros_like, golden.params))
    for one in (wide, other):
        assert isinstance(one, CTranslate2Translator)
        assert one.compute_type == 'int8'
    assert (wide.decoding.beam_width, other.decoding.beam_width) == (2, 1)
    assert other.programs is fast.programs
    with pytest.raises(UserError, match=r'decoding\.coverage_penalty=0\.5'):
        fast.with_decoding(replace(golden.decoding, coverage_penalty=0.5))


def test_without_the_package_the_command_that_installs_it_is_said(golden, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ctranslate2', None)
    with pytest.raises(UserError, match=r'pip install .*\[ctranslate2\]'):
        CTranslate2Translator.of(golden)


def test_a_compute_type_is_of_this_back_end_alone():
    with pytest.raises(UserError, match='--backend ctranslate2'):
        main([str(RUN), '--compute-type', 'int8'])


def test_its_greedy_translations_are_ours(golden, own_cache):
    pytest.importorskip('ctranslate2')
    fast = CTranslate2Translator.of(golden)
    for ours, theirs in zip(golden(LINES), fast(LINES), strict=True):
        assert (theirs.text, theirs.token_ids) == (ours.text, ours.token_ids)
        # Its exponentials and norms are computed otherwise; without renormalizing this would be 5e-3.
        assert (theirs.score, theirs.log_prob) == pytest.approx((ours.score, ours.log_prob), abs=1e-3)
        assert theirs.truncated == ours.truncated
    (folder,) = own_cache.iterdir()
    written = (folder / 'model.bin').stat().st_mtime_ns
    texts = [translation.text for translation in CTranslate2Translator.of(golden, 'int8')(LINES * 3)]
    assert texts == [translation.text for translation in golden(LINES)] * 3  # by several workers
    assert list(own_cache.iterdir()) == [folder]  # converted once, whatever it computes in
    assert (folder / 'model.bin').stat().st_mtime_ns == written


def test_each_sentence_has_its_own_limit_and_is_flagged_where_it_is_cut(golden, own_cache):
    pytest.importorskip('ctranslate2')
    eos = golden.tokenizer.eos_id
    # With EOS banned everything runs to its limit: the source's tokens and three.
    decoding = replace(golden.decoding, max_tokens=None, max_extra_tokens=3, banned_ids=(eos,))
    fast = CTranslate2Translator.of(golden.with_decoding(decoding))
    found = fast(['one', 'three hundred and thirty-three'])
    lengths = [len(golden.tokenizer.encode([line])[0]) for line in ('one', 'three hundred and thirty-three')]
    assert [x.num_tokens for x in found] == [n + 3 for n in lengths]
    assert all(x.truncated for x in found)
    assert CTranslate2Translator.of(golden.with_decoding(replace(golden.decoding, min_tokens=9)))('one').num_tokens == 9


def test_as_many_lines_come_out_as_went_in(own_cache, tmp_path):
    pytest.importorskip('ctranslate2')
    source, target = tmp_path / 'in', tmp_path / 'out'
    source.write_text('\n'.join(LINES) + '\n')
    wishes = ['--backend', 'ctranslate2', '--decoding.no-force-eos']
    main([str(RUN), *wishes, '--input', str(source), '--output', str(target)])
    out = target.read_text().split('\n')
    assert len(out) == len(LINES) + 1
    assert (out[0], out[2]) == ('eins', 'einundzwanzig')
    assert [line.strip() == '' for line in out[:-1]] == [line.strip() == '' for line in LINES]


SHAPES = {
    'pre-norm': {'norm_first': True, 'norm_epsilon': 1e-3, 'positions': 'tensor2tensor', 'attention_bias': True},
    'untied': {'tie_embeddings': 'none', 'target_vocab_size': 50, 'logits_bias': True, 'activation': 'swish'},
    'target tied': {'tie_embeddings': 'target', 'pad_row': 'neither', 'scale_embedding': False}
    | {'positions': 'learned', 'max_length': 30, 'activation': 'gelu'},
}


@pytest.mark.parametrize('name', SHAPES)
@pytest.mark.slow_cases('pre-norm', 'untied')
def test_models_of_every_shape_are_written(name, tmp_path):
    """Random weights; its log-probabilities of our greedy translation are those of our full forward pass."""
    ctranslate2 = pytest.importorskip('ctranslate2')
    config = replace(SMALL, **SHAPES[name])
    source = np.array([[5, 9, 30, 2, 1]])
    target = np.array([[7, 3, 39, 11, 1]])
    model = Transformer(config)
    params = drawn(parameter_shapes(config))
    target_in = np.array([[0, 7, 3, 39, 11]])
    log_probs = jax.nn.log_softmax(jax.jit(model.apply)({'params': params}, source, target_in))
    expected = np.take_along_axis(np.asarray(log_probs), target[:, :, None], axis=2)[0, :, 0]
    write(tmp_path / 'model', config, params, slots=30)
    engine = ctranslate2.Translator(str(tmp_path / 'model'))
    texts = ([list(map(str, row)) for row in rows.tolist()] for rows in (source, target[:, :-1]))
    (scored,) = engine.score_batch(*texts)
    # The same float32 sums in another order.
    np.testing.assert_allclose(scored.log_probs, expected, atol=2e-4)

"""Marian models in and out, without torch: a model by transformers, with what it computed (make_marian_fixture.py).

test_against_transformers.py compares with transformers itself, in many shapes.
"""

import json
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import TESTS
from drawn_params import drawn
from marian_folders import change

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.huggingface.folder import read_folder
from flax_transformer.huggingface.settings import read_decoding, read_model, write_decoding, write_model
from flax_transformer.huggingface.tokenizer_files import read_vocabulary
from flax_transformer.huggingface.weights import read_tensors, to_params, to_tensors, write_safetensors
from flax_transformer.interop.huggingface_runs import import_huggingface
from flax_transformer.transformer.layers import sinusoids
from flax_transformer.transformer.model import Transformer, parameter_shapes

FIXTURE = TESTS / 'fixtures' / 'marian'
EXPECTED = json.loads((FIXTURE / 'expected.json').read_text(encoding='utf-8'))
SETTINGS = json.loads((FIXTURE / 'config.json').read_text(encoding='utf-8'))
# Sums of float32 in another order: up to 7e-5 was seen (docs/how-to/huggingface.md).
CLOSE = {'rtol': 0, 'atol': 1e-4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the fixture, to spoil."""
    copy = tmp_path / 'marian'
    shutil.copytree(FIXTURE, copy, ignore=shutil.ignore_patterns('*.bin', 'expected.*'))
    return copy


@pytest.fixture(scope='module')
def translator() -> Translator:
    return Translator.from_marian(FIXTURE)


@pytest.fixture(scope='module')
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return import_huggingface(FIXTURE, tmp_path_factory.mktemp('runs') / 'imported').path


def padded(rows: list[list[int]], pad_id: int) -> np.ndarray:
    return np.array([row + [pad_id] * (max(map(len, rows)) - len(row)) for row in rows], np.int32)


def test_encoder_output_and_logits_are_those_of_transformers(translator: Translator) -> None:
    expected = np.load(FIXTURE / 'expected.npz')
    source = padded(EXPECTED['ids'], translator.tokenizer.pad_id)
    variables, is_real = {'params': translator.params}, source != translator.tokenizer.pad_id
    # A pad that is written out in a line is masked as any other.
    assert is_real.sum() == sum(map(len, EXPECTED['ids'])) - 1
    memory = jax.jit(partial(translator.model.apply, method='encode'))(variables, source)
    rows = [i for i, line in enumerate(EXPECTED['lines']) if '<pad>' not in line]
    np.testing.assert_allclose(
        np.asarray(memory)[rows][is_real[rows]], expected['memory'][rows][is_real[rows]], **CLOSE
    )
    logits = jax.jit(translator.model.apply)(variables, source, expected['target_in'])
    np.testing.assert_allclose(logits[np.array(rows)], expected['logits'][rows], **CLOSE)


@pytest.mark.parametrize(('name', 'width'), [('greedy', 1), ('beam_by_our_rules', 4)])
@pytest.mark.slow_cases('greedy-1')
def test_outputs_are_those_of_transformers(name: str, width: int, translator: Translator) -> None:
    """Of the beam, what the plain search of tests/beam_reference.py finds by our rules on their log-probabilities."""
    searching = translator.with_decoding(replace(translator.decoding, beam_width=width))
    found = searching.translate_ids(searching.params, padded(EXPECTED['ids'], translator.tokenizer.pad_id))
    ours = [row[:n].tolist() for row, n in zip(np.asarray(found.tokens)[:, 0], found.lengths[:, 0], strict=True)]
    theirs = [row[: row.index(0) + 1] for row in EXPECTED[name]]
    for line, a, b in zip(EXPECTED['lines'], ours, theirs, strict=True):
        assert a == b or '<pad>' in line, line


def test_the_settings_of_the_model_become_ours(translator: Translator) -> None:
    model, decoding = translator.model.config, translator.decoding
    assert (model.positions, model.norm_epsilon, model.activation, model.pad_row) == (
        'concatenated',
        1e-5,
        'swish',
        'neither',
    )
    assert (decoding.beam_width, decoding.length_penalty, decoding.alpha) == (4, 'power', 0.9)
    assert (decoding.max_tokens, decoding.force_eos, decoding.renormalize) == (19, True, True)
    assert (decoding.ban_unk, decoding.ban_pad, decoding.banned_ids) == (False, True, ())


@pytest.mark.parametrize('name', ['zip.bin', 'legacy.bin', 'shards', 'bfloat16.bin'])
def test_every_form_of_the_weights_gives_the_same_parameters(name: str, folder: Path, translator: Translator) -> None:
    tensors = dict(read_tensors(folder))
    (folder / 'model.safetensors').unlink()
    if name == 'shards':
        parts = {f'model-0000{i}-of-00002.safetensors': sorted(tensors)[i - 1 :: 2] for i in (1, 2)}
        for file, part in parts.items():
            write_safetensors(folder / file, {key: tensors[key] for key in part})
        homes = {key: file for file, part in parts.items() for key in part}
        (folder / 'model.safetensors.index.json').write_text(json.dumps({'weight_map': homes}))
    else:
        shutil.copy(FIXTURE / name, folder / 'pytorch_model.bin')
    tolerance = 2**-8 if name == 'bfloat16.bin' else 0.0
    jax.tree.map(
        lambda ours, expected: np.testing.assert_allclose(ours, expected, rtol=tolerance),
        read_folder(folder).params,
        translator.params,
    )


def test_an_index_that_names_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'model.safetensors.index.json').write_text('{"weight_map": {"a": 5}}')
    with pytest.raises(UserError, match=': 5'):
        read_tensors(tmp_path)


@pytest.mark.slow
def test_an_imported_run_is_like_any_other(imported: Path, call_command) -> None:
    """Translated with, scored with, in an ensemble; greedy, for the time that compiling takes."""
    lines = EXPECTED['lines'][:4]
    expected = [t.text for t in Translator.from_marian(FIXTURE, beam_width=1, max_source_tokens=16)(lines)]
    options = ['--decoding.beam-width', '1', '--decoding.max-source-tokens', '16']
    for runs in ([imported], [imported] * 2):
        assert call_command('translate', *runs, *options, text='\n'.join(lines))[1].splitlines() == expected
    assert 'expected one of deu, fra' in call_command('translate', imported, '--decoding.target-language', 'it')[2]
    assert 'has no test set' in call_command('evaluate', imported)[2]


def test_outputs_are_decoded_as_theirs(translator: Translator) -> None:
    for ids, text in zip(EXPECTED['beam'], EXPECTED['texts'], strict=True):
        assert translator.tokenizer.decode(ids) == text


def test_import_export_import_is_bitwise_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['import-marian', str(FIXTURE), str(tmp_path / 'run')]) == 0
    assert main(['export-marian', str(tmp_path / 'run'), str(tmp_path / 'out')]) == 0
    assert 'ct2-transformers-converter' in capsys.readouterr().out
    first, second = read_folder(FIXTURE), read_folder(tmp_path / 'out')
    assert (first.config, first.decoding) == (second.config, second.decoding)
    jax.tree.map(np.testing.assert_array_equal, first.params, second.params)
    before, after = dict(read_tensors(FIXTURE)), dict(read_tensors(tmp_path / 'out'))
    assert set(before) == set(after)
    for name, tensor in before.items():
        np.testing.assert_array_equal(tensor, after[name], err_msg=name)
    for name in ('source.spm', 'target.spm'):
        assert (tmp_path / 'out' / name).read_bytes() == (FIXTURE / name).read_bytes()
    assert json.loads((tmp_path / 'out' / 'vocab.json').read_text(encoding='utf-8')) == json.loads(
        (FIXTURE / 'vocab.json').read_text(encoding='utf-8')
    )


def test_every_fault_of_the_tensors_is_reported_together(folder: Path) -> None:
    tensors = dict(read_tensors(folder))
    del tensors['model.encoder.layers.0.fc1.weight']
    tensors['model.encoder.layers.7.fc1.weight'] = np.zeros(3, np.float32)
    tensors['final_logits_bias'] = tensors['final_logits_bias'][:, 1:]
    write_safetensors(folder / 'model.safetensors', tensors)
    with pytest.raises(UserError) as caught:
        read_folder(folder)
    for fault in (r'layers.0.fc1.weight: missing.*24, 16', r'layers.7.fc1.weight: unexpected', r'_bias: .*135.*136'):
        assert re.search(fault, str(caught.value))
    assert str(caught.value).count('\n') == 3


def test_tables_that_repeat_what_is_there_are_read_past(folder: Path, translator: Translator) -> None:
    tensors = dict(read_tensors(folder))
    for name in ('model.encoder.embed_tokens.weight', 'model.decoder.embed_tokens.weight', 'lm_head.weight'):
        tensors[name] = tensors['model.shared.weight']
    tensors['model.encoder.embed_positions.weight'] = sinusoids(512, 16, 'concatenated')
    del tensors['model.shared.weight']
    write_safetensors(folder / 'model.safetensors', tensors)
    jax.tree.map(np.testing.assert_array_equal, read_folder(folder).params, translator.params)


@pytest.mark.slow
def test_a_learned_pad_row_is_the_start(folder: Path) -> None:
    tensors = {name: np.array(tensor) for name, tensor in read_tensors(folder).items()}
    tensors['model.shared.weight'][-1] = 0.5
    write_safetensors(folder / 'model.safetensors', tensors)
    marian = read_folder(folder)
    assert marian.config.pad_row == 'both'
    inputs = {'params': marian.params}, np.array([[5, 0]]), np.array([[135]])
    start = jax.jit(Transformer(marian.config).apply)(*inputs)
    zero = jax.jit(Transformer(replace(marian.config, pad_row='neither')).apply)(*inputs)
    assert np.abs(start - zero).max() > 0.01


@pytest.mark.parametrize(
    ('spoil', 'expected'),
    [
        (lambda f: (f / 'config.json').unlink(), r'config\.json is missing'),
        (lambda f: (f / 'vocab.json').unlink(), r'has no vocab\.json'),
        (lambda f: [(f / n).unlink() for n in ('source.spm', 'target.spm')], r'has no source\.spm, target\.spm'),
        (lambda f: (f / 'model.safetensors').unlink(), r'has no weights'),
        (lambda f: change(f, 'config.json', model_type='bart'), r"'bart'.*marian.*m2m_100"),
        (lambda f: change(f, 'config.json', architectures=['MarianForCausalLM']), r'architectures=.*MarianMTModel'),
        (lambda f: change(f, 'config.json', d_model=None, encoder_layers=None), r'd_model: .*\n  encoder_layers: '),
        (lambda f: change(f, 'config.json', decoder_ffn_dim=25), 'decoder_ffn_dim=25.*24'),
        (lambda f: change(f, 'config.json', normalize_before=True), 'normalize_before=True'),
        (lambda f: change(f, 'config.json', pad_token_id=5, decoder_start_token_id=5), '135 in .* 5 in'),
        (lambda f: change(f, 'config.json', vocab_size=137), '136 in .* 137 in'),
        (
            lambda f: change(f, 'generation_config.json', do_sample=True, num_beam_groups=2),
            r'do_sample.*\n.*groups=2: not',
        ),
        (lambda f: change(f, 'generation_config.json', bad_words_ids=[[3, 4]]), r'bad_words_ids has \[\[3, 4\]\]'),
        (lambda f: change(f, 'tokenizer_config.json', tokenizer_class='T5Tokenizer'), 'T5Tokenizer'),
        (lambda f: change(f, 'tokenizer_config.json', eos_token='<eos>'), '<eos>'),
        (lambda f: change(f, 'tokenizer_config.json', sp_model_kwargs={'enable_sampling': True}), r'sp_model_kwargs'),
        (lambda f: change(f, 'tokenizer_config.json', additional_special_tokens=['<x>']), "'<x>'"),
        (lambda f: (f / 'vocab.json').write_text('{"</s>": 0, "<unk>": 1, "a": 1, "<pad>": 2}'), 'a different id, at'),
        (lambda f: (f / 'vocab.json').write_text('{"</s>": 0, "<unk>": 1, "<pad>": 2}'), r'disagrees with source\.spm'),
    ],
)
def test_a_bad_folder_is_refused_with_what_is_wrong(spoil, expected: str, folder: Path, tmp_path: Path, capsys) -> None:
    spoil(folder)
    assert main(['import-marian', str(folder), str(tmp_path / 'run')]) == 2
    output = capsys.readouterr()
    assert re.search(expected, output.err), output.err
    assert 'Traceback' not in output.err
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        (['import-marian', str(FIXTURE)], r'expected FOLDER and RUN'),
        (['export-marian', 'number_words'], r"model.positions='interleaved'[^$]*model.norm_epsilon=1e-06"),
    ],
)
def test_a_bad_command_is_refused(argv: list[str], expected: str, capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    assert re.search(expected, capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_is_there_is_not_overwritten(imported: Path, tmp_path: Path, capsys) -> None:
    assert main(['import-marian', str(FIXTURE), str(imported)]) == 2
    assert 'is a run directory already' in capsys.readouterr().err
    (tmp_path / 'mine').write_text('x')
    assert main(['export-marian', str(imported), str(tmp_path)]) == 2
    assert 'is not an empty folder' in capsys.readouterr().err


def test_missing_safetensors_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, 'safetensors.numpy', None)
    with pytest.raises(UserError, match=r'pip install .*\[interop\]'):
        write_safetensors(tmp_path / 'model.safetensors', {})


MODEL = read_model(SETTINGS)


@pytest.mark.parametrize(
    ('theirs', 'ours'),
    [
        (
            {},
            {'beam_width': 1, 'max_tokens': None, 'force_eos': False, 'ban_pad': False, 'alpha': 1.0, 'min_tokens': 1},
        ),
        ({'max_new_tokens': 9, 'max_length': 512}, {'max_tokens': 9}),
        ({'min_length': 4}, {'min_tokens': 4}),
        ({'min_new_tokens': 4}, {'min_tokens': 5}),
        ({'forced_eos_token_id': 0}, {'force_eos': True}),
        ({'bad_words_ids': [[135], [9]], 'suppress_tokens': [4]}, {'ban_pad': True, 'banned_ids': (4, 9)}),
        ({'no_repeat_ngram_size': 3, 'num_beams': 6}, {'no_repeat_ngram': 3, 'beam_width': 6}),
    ],
)
def test_generation_settings_are_read(theirs: dict, ours: dict) -> None:
    decoding = read_decoding(theirs, MODEL)
    assert {name: getattr(decoding, name) for name in ours} == ours
    assert not decoding.ban_unk
    again = read_decoding(write_decoding(MODEL, decoding, unk_id=1), MODEL)
    assert replace(again, max_tokens=decoding.max_tokens, batch_tokens=decoding.batch_tokens) == decoding


def test_an_older_folder_has_the_search_in_config_json(folder: Path) -> None:
    (folder / 'generation_config.json').unlink()
    change(folder, 'config.json', num_beams=6, max_length=100, bad_words_ids=[[135]])
    decoding = read_folder(folder).decoding
    assert (decoding.beam_width, decoding.max_tokens, decoding.ban_pad, decoding.force_eos) == (6, 99, True, True)


def test_our_own_model_gives_the_same_logits_when_read_back() -> None:
    """Biases that it lacks and a pad row that it does not read come back as zeros."""
    config = TransformerConfig(
        **{'vocab_size': 20, 'd_model': 16, 'num_heads': 2, 'd_ff': 24, 'num_encoder_layers': 1},
        **{'num_decoder_layers': 1, 'pad_id': 19, 'eos_id': 0, 'norm_epsilon': 1e-5, 'positions': 'concatenated'},
        **{'tie_embeddings': 'none', 'pad_row': 'output'},
    )
    params = drawn(parameter_shapes(config))
    read = read_model(json.loads(json.dumps(write_model(config, DecodingConfig(max_source_tokens=64, max_tokens=20)))))
    assert replace(read, pad_row=config.pad_row, attention_bias=False, logits_bias=False) == config
    back = to_params(to_tensors(params, config), read)
    source, target = np.array([[3, 4, 0, 19]]), np.array([[19, 7, 8]])
    ours = jax.jit(Transformer(config).apply)({'params': params}, source, target)
    theirs = jax.jit(Transformer(read).apply)({'params': back}, source, target)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)


def test_a_piece_that_is_half_a_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'vocab.json').write_text('{"\\ud800": 0}')
    with pytest.raises(UserError, match='a piece that is no text'):
        read_vocabulary(tmp_path / 'vocab.json')

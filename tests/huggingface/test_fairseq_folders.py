"""NLLB-200, M2M-100 and mBART-50 in Hugging Face's format: languages, tokens, numbers, runs, what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fairseq_folders
import jax
import numpy as np
import pytest
from marian_folders import change
from random_lines import random_line

from flax_transformer import Translator, train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import OptimizerConfig, TrainingConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.huggingface.fairseq_tokenizer import LANGUAGES, FairseqTokenizer
from flax_transformer.huggingface.folder import read_folder
from flax_transformer.huggingface.settings import read_model
from flax_transformer.huggingface.weights import read_tensors, to_params
from flax_transformer.interop.huggingface_runs import export_huggingface, import_huggingface
from flax_transformer.ops import decoding_weights
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.languages import known_language, two_letters
from flax_transformer.transformer.model import Transformer

pytestmark = pytest.mark.usefixtures('safetensors')
LINES = ['The quick brown fox', 'Straße']


@pytest.fixture(scope='module')
def safetensors() -> None:
    pytest.importorskip('safetensors', reason='safetensors is not installed')


@pytest.fixture(scope='module')
def nllb(tmp_path_factory, safetensors) -> Path:
    return fairseq_folders.write_folder(tmp_path_factory.mktemp('nllb'), 'NllbTokenizer')


@pytest.fixture(scope='module')
def translator(nllb: Path) -> Translator:
    return Translator.from_huggingface(nllb, target_language='de', split_sentences=False, beam_width=2)


@pytest.mark.parametrize(
    ('language', 'expected'),
    [
        ('de', ('deu_Latn', 'de', 'de_DE')),
        ('de-AT', ('deu_Latn', 'de', 'de_DE')),
        ('deu_latn', ('deu_Latn', 'de', 'de_DE')),
        ('de_DE', ('deu_Latn', 'de', 'de_DE')),
        ('zh', ('zho_Hans', 'zh', 'zh_CN')),
        ('fa', ('pes_Arab', 'fa', 'fa_IR')),
    ],
)
def test_usual_names_of_languages_are_understood(language: str, expected: tuple[str, ...]) -> None:
    assert tuple(known_language('target_language', language, codes) for codes in LANGUAGES.values()) == expected
    assert {two_letters(code) for code in expected} == {language[:2]}


@pytest.mark.parametrize(
    ('language', 'expected'),
    [
        ('kas', "target_language='kas': .*kas_Arab, kas_Deva"),
        ('dau_Latn', "target_language='dau_Latn': .*mean .*deu_Latn"),
        (None, 'target_language=None: .*ace_Arab, '),
    ],
)
def test_a_language_that_is_not_one_is_refused_with_the_list(language: str | None, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        known_language('target_language', language, LANGUAGES['NllbTokenizer'])
    assert known_language('target_language', 'zh-TW', LANGUAGES['NllbTokenizer']) == 'zho_Hant'
    assert [len(known) for known in LANGUAGES.values()] == [202, 100, 52]


# Logits of transformers 5.24.0 for the same arrays: of three positions, the first three.
EXPECTED = {
    'NllbTokenizer': [[-0.568, 6.634, 2.128], [-0.714, 5.588, 0.245], [-0.677, 6.726, 0.605]],
    'MBart50Tokenizer': [[0.811, 5.932, 1.979], [0.294, 5.352, 0.405], [0.524, 6.483, 0.686]],
}


@pytest.mark.parametrize('kind', EXPECTED)
@pytest.mark.slow_cases('NllbTokenizer')
def test_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    folder = fairseq_folders.write_folder(tmp_path, kind, rows=50)
    config = read_model(json.loads((folder / 'config.json').read_text()))
    params = to_params(read_tensors(folder), config)
    found = jax.jit(Transformer(config).apply)({'params': params}, np.array([[40, 5, 6, 2, 1]]), np.array([[2, 41, 7]]))
    np.testing.assert_allclose(found[0, :, :3], EXPECTED[kind], atol=1e-3)


@pytest.mark.parametrize('kind', fairseq_folders.KINDS)
@pytest.mark.slow_cases('M2M100Tokenizer', 'NllbTokenizer')
def test_sources_and_targets_have_tags(kind: str, tmp_path: Path) -> None:
    fairseq_folders.write_folder(tmp_path, kind)
    tokenizer = read_folder(tmp_path).tokenizer
    codes = LANGUAGES[kind]
    german = tokenizer.reading('de')
    (ids,), (english, *_) = german.encode(['fox']), tokenizer.encode(['fox'])[0]
    assert (codes[tokenizer.languages[german.source_language] - min(tokenizer.languages.values())])[:2] == 'de'
    assert ids == [tokenizer.languages[german.source_language], *german.encode_target(['fox'])[0]]
    assert english == tokenizer.languages[tokenizer.source_language]
    assert german.decode([german.first_id('fr'), *ids]) == 'fox'
    assert german.digest != tokenizer.digest
    german.save(tmp_path / 'saved')
    assert type(tokenizer).load(tmp_path / 'saved').digest == german.digest
    change(tmp_path, 'tokenizer_config.json', legacy_behaviour=True)
    assert read_folder(tmp_path).tokenizer.reading('de').encode(['fox']) == [[*ids[1:], ids[0]]]


@pytest.mark.parametrize('kind', ['NllbTokenizer', 'MBart50Tokenizer'])
def test_a_folder_of_transformers_5_gives_the_same_tokens(kind: str, tmp_path: Path) -> None:
    rows = fairseq_folders.write_tokenizer(tmp_path, kind)
    old = FairseqTokenizer.load(tmp_path, rows)
    fairseq_folders.save_as_transformers_5(tmp_path, kind, ('dsb_Latn',))
    new = FairseqTokenizer.load(tmp_path, rows + 1)
    lines = [random_line(np.random.default_rng(n)).decode('utf-8', 'replace') for n in range(200)]
    assert new.encode(lines) == old.encode(lines)
    assert new.languages == old.languages | {'dsb_Latn': max(old.languages.values()) + 2}
    for folder in (tmp_path / 'run', tmp_path / 'export'):
        new.save(folder)
        new = FairseqTokenizer.load(folder)
    assert new.encode(['Äpfel']) == old.encode(['Äpfel'])
    assert new.first_id('dsb') == old.first_id('zu' if 'Nllb' in kind else 'sl') + 2

    file = tmp_path / 'tokenizer.json'
    content = json.loads(file.read_text())
    content['normalizer']['normalizers'].append({'type': 'Lowercase'})
    content['added_tokens'].append({'id': 9, 'content': 'fox', 'special': False})
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"Lowercase: .*\n.*'fox'"):
        FairseqTokenizer.load(tmp_path, rows + 1)


def test_what_config_json_leaves_out_has_the_defaults_of_its_family() -> None:
    """Those of the configuration classes of transformers 5.24."""
    unsaid = ('scale_embedding', 'activation_function', 'pad_token_id', 'eos_token_id', 'max_position_embeddings')
    whole = {kind: fairseq_folders.settings(kind, 9000) for kind in fairseq_folders.KINDS}
    models = {kind: read_model({k: v for k, v in s.items() if k not in unsaid}) for kind, s in whole.items()}
    m2m, mbart = models['M2M100Tokenizer'], models['MBart50Tokenizer']
    assert (m2m.scale_embedding, m2m.attention_dropout_rate, m2m.activation) == (True, 0.1, 'relu')
    assert (mbart.scale_embedding, mbart.attention_dropout_rate, mbart.activation) == (False, 0.0, 'gelu')
    assert {(model.pad_id, model.eos_id, model.max_length) for model in models.values()} == {(1, 2, 1024)}


@pytest.mark.slow
def test_a_translation_begins_with_its_language_at_no_cost(translator: Translator) -> None:
    found = translator(LINES)
    assert [one.tokens[0] for one in found] == ['deu_Latn'] * 2
    assert [one.token_log_probs[0] for one in found] == [0.0] * 2
    assert found[0].num_tokens == len(found[0].token_ids)
    scored = translator.score(LINES, ['Äpfel', 'süße'])
    ids = [[*one.token_ids] for one in scored]
    source = translator.encode(LINES)
    target_in = np.array([[2, *row[:-1]] + [1] * (max(map(len, ids)) - len(row)) for row in ids])
    logits = translator.model.apply({'params': translator.params}, source, target_in)
    expected = jax.nn.log_softmax(logits)[0, np.arange(1, len(ids[0])), np.array(ids[0][1:])].sum()
    np.testing.assert_allclose(scored[0].log_prob, expected, rtol=1e-5)


@pytest.mark.slow
def test_another_language_is_another_translation_of_the_same_programs(translator: Translator) -> None:
    translator(LINES)
    french = translator.with_decoding(replace(translator.decoding, target_language='fr', source_language='de'))
    found = french(LINES)
    assert found.num_compilations == 0
    assert {one.tokens[0] for one in found} == {'fra_Latn'}
    assert french.tokenizer.source_language == 'deu_Latn'
    with pytest.raises(UserError, match=str(translator.first_id)):
        translator.translate_ids(translator.weights, translator.encode(LINES))


@pytest.mark.slow
def test_weights_in_int8_are_all_that_is_kept(nllb: Path) -> None:
    small = Translator.from_huggingface(nllb, target_language='de', split_sentences=False, weights='int8')
    assert small._params is None
    greedy = small.with_decoding(replace(small.decoding, max_tokens=3))
    assert greedy.weights is small.weights
    whole = small.with_decoding(replace(small.decoding, weights='float32'))
    jax.tree.map(np.testing.assert_array_equal, decoding_weights.to_params(whole.weights), read_folder(nllb).params)


@pytest.mark.parametrize('kind', fairseq_folders.KINDS)
@pytest.mark.slow
def test_an_imported_run_is_exported_as_it_was(kind: str, tmp_path: Path, capsys) -> None:
    folder, run, out = fairseq_folders.write_folder(tmp_path / 'in', kind), tmp_path / 'run', tmp_path / 'out'
    assert main(['import-huggingface', str(folder), str(tmp_path / 'any')]) == 0
    files = [f'--{side}={folder / "config.json"}' for side in ('source', 'target')]
    assert main(['score', str(tmp_path / 'any'), *files]) == 2
    assert 'target_language=None' in capsys.readouterr().err
    assert main(['import-huggingface', str(folder), str(run), '--target-language', 'fr']) == 0
    assert capsys.readouterr().err.count('CC BY-NC') == 1
    assert main(['export-huggingface', str(run), str(out)]) == 0
    before, after, data = read_folder(folder), read_folder(out), Run(run).read_config().data
    assert (after.config, after.decoding) == (before.config, before.decoding)
    jax.tree.map(np.testing.assert_array_equal, after.params, before.params)
    assert after.tokenizer.digest == before.tokenizer.digest
    assert (data.language_tags, data.target_language) == (True, 'fr')


@pytest.mark.parametrize(
    ('spoil', 'expected'),
    [
        ({'normalize_before': False, 'd_model': None}, r'd_model: .*\n  normalize_before=False'),
        ({'vocab_size': 100}, r'ids up to \d+, and the model 100 rows'),
        ({'decoder_start_token_id': None}, r'decoder_start_token_id: missing'),
        ({'encoder_layers': 1, 'd_ff': 3}, r'layers\.1\.[^$]*unexpected\n[^$]*unexpected'),
        ({'model_type': 'm2m_100'}, r"architectures=\['MBart.*M2M100"),
        ({'tokenizer_class': 'MBartTokenizer'}, "tokenizer_class='MBartTokenizer'"),
        ({'missing': 'sentencepiece.bpe.model'}, r'sentencepiece\.bpe\.model is missing'),
        (
            {'forced_bos_token_id': 9, 'num_beam_groups': 2, 'decoder_start_token_id': 7},
            r'groups=2.*\n.*=7: expected 2',
        ),
    ],
)
def test_a_bad_folder_is_refused_with_what_is_wrong(spoil: dict[str, Any], expected: str, tmp_path: Path) -> None:
    fairseq_folders.write_folder(tmp_path, 'MBart50Tokenizer')
    if 'missing' in spoil:
        (tmp_path / spoil['missing']).unlink()
    elif 'tokenizer_class' in spoil:
        change(tmp_path, 'tokenizer_config.json', **spoil)
    else:
        change(tmp_path, 'generation_config.json' if 'num_beam_groups' in spoil else 'config.json', **spoil)
    with pytest.raises(UserError, match=expected):
        read_folder(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize('frozen', [(), ('embedding/table',)])
def test_a_fine_tuned_model_resumes_to_the_bit_and_is_exported(frozen: tuple[str, ...], nllb: Path, tmp_path: Path):
    imported = import_huggingface(nllb, tmp_path / 'imported', target_language='de')
    for name, words in (('en', 'The fox number {} jumps'), ('de', 'Straße und {} Äpfel')):
        (tmp_path / f'train.{name}').write_text(''.join(f'{words.format(n)}\n' for n in range(99)), encoding='utf-8')
    config = imported.read_config()
    data = {'train': 'train.{lang}', 'root': str(tmp_path), 'source_length': 32, 'target_length': 32}
    config = replace(
        config,
        data=replace(config.data, source_language='en', target_language='de', **data),
        optimizer=OptimizerConfig(schedule='inverse_sqrt', learning_rate=1e-2, warmup_steps=10, freeze=frozen),
        training=TrainingConfig(steps=40, tokens_per_step=512, log_every=1, evaluate_every=20, checkpoint_every=20),
    )
    whole = train(config, tmp_path / 'whole', init_from=imported.path)
    for steps in (20, 40):
        part = replace(config, training=replace(config.training, steps=steps))
        halves = train(part, tmp_path / 'halves', init_from=imported.path if steps == 20 else None)
    losses = [record['loss'] for record in read_metrics(whole.path) if record['kind'] == 'train']
    assert losses[-1] < losses[0] / 2
    params = [load_run(f'{run.path}@last').params for run in (imported, whole, halves)]
    jax.tree.map(np.testing.assert_array_equal, *params[1:])
    tables = [np.asarray(each['embedding']['table']) for each in params[:2]]
    assert np.array_equal(*tables) == bool(frozen)
    export_huggingface(f'{whole.path}@last', tmp_path / 'out', config.decoding)
    jax.tree.map(np.testing.assert_array_equal, read_folder(tmp_path / 'out').params, params[1])

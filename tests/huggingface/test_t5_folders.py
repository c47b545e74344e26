"""T5, T5 v1.1, mT5 and MADLAD-400 in Hugging Face's format: tokens, numbers, runs, what is refused."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import sentencepiece
import t5_folders
from marian_folders import change

from flax_transformer import Translator, train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import OptimizerConfig, TrainingConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.tokenized import tokenize
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.huggingface.folder import read_folder
from flax_transformer.huggingface.settings import read_model
from flax_transformer.huggingface.weights import read_tensors, to_params
from flax_transformer.interop.huggingface_runs import import_huggingface
from flax_transformer.server.directions import Directions
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.transformer.model import Transformer

safetensors = pytest.importorskip('safetensors.numpy', reason='safetensors is not installed')
LINES = ['The quick brown fox', 'Straße']
SMALL = {'max_source_tokens': 16, 'batch_tokens': 16, 'buckets': (16,), 'beam_width': 2, 'max_tokens': 5}


# Logits of transformers 5.24.0 for the same arrays: the first 3 of 3 positions among 150; the source has 200 tokens.
EXPECTED = {
    'T5': [[0.015, 0.451, -0.802], [0.026, 0.535, -0.581], [-0.647, 0.993, -0.216]],
    'T5 v1.1': [[-8.192, 3.075, -0.656], [-0.243, 1.475, 0.514], [-2.864, 3.221, 3.758]],
}


def far_apart() -> tuple[np.ndarray, np.ndarray]:
    """Ids of a source and a target that are longer than the farthest bucket of distances."""
    rng = np.random.default_rng(0)
    return rng.integers(3, 50, (1, 200)), rng.integers(3, 50, (1, 150))


@pytest.mark.parametrize('kind', EXPECTED)
def test_logits_are_those_of_transformers_far_apart_too(kind: str, tmp_path: Path) -> None:
    folder = t5_folders.write_folder(tmp_path, kind, rows=50)
    config = read_model(json.loads((folder / 'config.json').read_text()))
    params = to_params(read_tensors(folder), config)
    found = jax.jit(Transformer(config).apply)({'params': params}, *far_apart())
    np.testing.assert_allclose(found[0, [0, 75, 149], :3], EXPECTED[kind], atol=1e-3)


@pytest.mark.parametrize('kind', t5_folders.MODELS)
def test_ids_are_those_of_sentencepiece_after_the_tag(kind: str, tmp_path: Path) -> None:
    folder = t5_folders.write_folder(tmp_path, kind)
    config, _, tokenizer, decoding = read_folder(folder)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / 'spiece.model'))
    ids = [[*row, config.eos_id] for row in model.encode(LINES)]
    assert tokenizer.encode(LINES) == ids
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (config.pad_id, config.eos_id, model.unk_id())
    assert tokenizer.vocab_size == config.vocab_size == model.vocab_size() + t5_folders.SENTINELS
    assert tokenizer.decode([*ids[0], config.vocab_size - 1]) == LINES[0]
    if kind == 'MADLAD-400':
        tag = model.piece_to_id('<2de>')
        beginning = [model.piece_to_id('▁'), tag]
        assert model.encode(f'<2de> {LINES[0]}') == [*beginning, *ids[0][:-1]]
        assert tokenizer.encode(LINES, target_language='de-AT') == [[*beginning, *row] for row in ids]
        pairs = tokenize(Pairs(LINES, LINES), tokenizer, target_language='de')
        assert pairs.source.ids.tolist() == [i for row in ids for i in (*beginning, *row)]
        assert pairs.target.ids.tolist() == [i for row in ids for i in row]
        assert tokenizer.encode(['<2de>'])[0][:-1] != [tag]  # in a line, it is text
    assert decoding.split_sentences == bool(tokenizer.languages) == (kind == 'MADLAD-400')
    assert decoding.max_tokens == 15  # theirs counts the decoder's start


def test_copies_of_older_versions_are_read_and_the_softmax_is_what_its_table_says(tmp_path: Path) -> None:
    folder = t5_folders.write_folder(tmp_path, 'T5')
    before = read_folder(folder)
    tensors = safetensors.load_file(folder / 'model.safetensors')
    table = tensors['shared.weight']
    unread = {'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight': np.ones((32, 4), np.float32)}
    copies = {f'{name}.weight': table for name in ('encoder.embed_tokens', 'decoder.embed_tokens', 'lm_head')}
    safetensors.save_file(tensors | copies | unread, folder / 'model.safetensors')
    after = read_folder(folder)
    assert after.config == before.config
    assert before.config.scale_embedding
    jax.tree.map(np.testing.assert_array_equal, after.params, before.params)
    np.testing.assert_allclose(after.params['embedding']['table'] * 32**0.5, table, rtol=1e-6)

    # Version 5 writes that they are tied even if they are not.
    safetensors.save_file(tensors | {'lm_head.weight': 2 * table}, folder / 'model.safetensors')
    change(folder, 'config.json', scale_decoder_outputs=False)
    config, params, *_ = read_folder(folder)
    assert (config.tie_embeddings, config.scale_embedding) == ('sides', False)
    np.testing.assert_array_equal(params['projection'].T, 2 * table)


def test_the_published_madlad_has_its_table_by_the_decoders_name_alone(tmp_path: Path) -> None:
    folder = t5_folders.write_folder(tmp_path, 'MADLAD-400')
    before = read_folder(folder)
    tensors = safetensors.load_file(folder / 'model.safetensors')
    tensors['decoder.embed_tokens.weight'] = tensors.pop('shared.weight')
    safetensors.save_file(tensors, folder / 'model.safetensors')
    after = read_folder(folder)
    assert after.config == before.config
    assert after.config.tie_embeddings == 'sides'
    jax.tree.map(np.testing.assert_array_equal, after.params, before.params)


@pytest.mark.parametrize(
    ('spoil', 'expected'),
    [
        ({'model_type': 'umt5'}, r'"t5" \(T5\), "mt5" \(mT5\)'),
        ({'feed_forward_proj': 'gelu', 'd_kv': None}, "d_kv: missing\n.*feed_forward_proj='gelu': expected 'relu' or"),
        ({'relative_attention_max_distance': 64}, 'relative_attention_max_distance=64: expected 128'),
        ({'num_layers': 3}, r'encoder\.block\.2\.layer\.1\.DenseReluDense\.wi_1\.weight: missing'),
        ({'vocab_size': 60}, 'pieces, and the model 60 rows'),
        ({'vocab_size': 10**9}, 'pieces, and the model 1000000000 rows'),
        ({'pad_token_id': 0}, 'pad_token_id=0, eos_token_id=2: one is the unknown piece'),
        ({'d_ff': 10**9}, r'wi_0\.weight: got shape \(48, 32\), expected \(1000000000, 32\)'),
        ({'num_heads': 10**9}, r'relative_attention_bias\.weight: got shape \(32, 4\), expected \(32, 1000000000\)'),
        ({'missing': 'spiece.model'}, 'spiece.model'),
    ],
)
def test_a_bad_folder_is_refused_with_what_is_wrong(spoil: dict[str, Any], expected: str, tmp_path: Path) -> None:
    folder = t5_folders.write_folder(tmp_path, 'MADLAD-400')
    if 'missing' in spoil:
        (folder / spoil['missing']).unlink()
    else:
        change(folder, 'config.json', **spoil)
    with pytest.raises(UserError, match=expected):
        read_folder(folder)


@pytest.mark.slow
def test_an_imported_run_translates_between_any_languages_and_is_not_exported(tmp_path: Path, capsys) -> None:
    folder, run = t5_folders.write_folder(tmp_path / 'madlad', 'MADLAD-400'), str(tmp_path / 'run')
    assert main(['translate', str(folder), '--to', 'de']) == 2
    assert 'import-huggingface' in capsys.readouterr().err
    assert main(['import-huggingface', str(folder), run]) == 0
    with pytest.raises(UserError, match='target_language=None: expected one of en, de, fr'):
        Translator.from_run(run)
    served = [Directions.load(str(name), ParallelConfig(), **SMALL) for name in (folder, run)]
    assert [*served[0].pairs] == [*served[1].pairs] == [*itertools.permutations(('en', 'de', 'fr'), 2)]
    found = [model.direction('fr', 'de').best(LINES) for model in served]
    assert [one.token_ids for one in found[0]] == [one.token_ids for one in found[1]]
    plain = t5_folders.write_folder(tmp_path / 't5', 'T5')
    with pytest.raises(UserError, match='serve a run that does: flax-transformer import-huggingface'):
        Directions.load(str(plain), ParallelConfig(), **SMALL)
    assert main(['export-huggingface', run, str(tmp_path / 'out')]) == 2
    assert "T5's format is only read" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['T5', 'MADLAD-400'])
def test_an_imported_model_is_fine_tuned_in_packed_rows(kind: str, tmp_path: Path) -> None:
    imported = import_huggingface(t5_folders.write_folder(tmp_path / 'in', kind), tmp_path / 'imported')
    for name, words in (('en', 'The fox number {} jumps'), ('de', 'Straße und {} Äpfel')):
        (tmp_path / f'train.{name}').write_text(''.join(f'{words.format(n)}\n' for n in range(99)), encoding='utf-8')
    config = imported.read_config()
    data = {'train': 'train.{lang}', 'root': str(tmp_path), 'source_length': 64, 'target_length': 64}
    data |= {'language_tags': kind == 'MADLAD-400'}
    config = replace(
        config,
        data=replace(config.data, source_language='en', target_language='de', **data),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=1e-2, warmup_steps=1),
        training=TrainingConfig(steps=30, tokens_per_step=512, log_every=1),
    )
    tuned = train(config, tmp_path / 'tuned', init_from=imported.path)
    losses = [record['loss'] for record in read_metrics(tuned.path) if record['kind'] == 'train']
    assert losses[-1] < losses[0] / 2
    first, last = (load_run(run.path).params['target_positions']['table'] for run in (imported, tuned))
    assert np.abs(first - last).max() > 1e-3  # distances are learned, too

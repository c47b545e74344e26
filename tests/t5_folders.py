"""Small models of the layout of T5, T5 v1.1, mT5 and MADLAD-400, in folders as transformers before 5 wrote them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from fairseq_folders import LINES
from marian_folders import pieces, spm

TAGS = ('<2en>', '<2de>', '<2fr>')
_IDS = {'pad_id': 0, 'eos_id': 1, 'unk_id': 2}
_IN_T5 = {'pad_token_id': 0, 'eos_token_id': 1, 'decoder_start_token_id': 0}
_OF_MADLAD = {'pad_token_id': 1, 'eos_token_id': 2, 'decoder_start_token_id': 0}
_GATED = {'feed_forward_proj': 'gated-gelu', 'tie_word_embeddings': False}
# Model type, what config.json says, and how its SentencePiece model was trained.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    'T5': ('t5', _IN_T5 | {'feed_forward_proj': 'relu', 'n_positions': 512}, _IDS),
    'T5 v1.1': ('t5', _IN_T5 | _GATED, _IDS),
    'mT5': ('mt5', _IN_T5 | _GATED, _IDS | {'byte_fallback': True}),
    'MADLAD-400': (
        't5',
        _OF_MADLAD | _GATED,
        {'pad_id': -1, 'bos_id': 1, 'eos_id': 2, 'unk_id': 0, 'user_defined_symbols': ','.join(TAGS)},
    ),
}
SENTINELS = 5  # rows after the pieces


def write_tokenizer(folder: Path, kind: str, lines: list[str] = LINES) -> int:
    """The tokenizer's files; returns the rows of its model."""
    folder.mkdir(parents=True, exist_ok=True)
    model = spm(lines, 420, **MODELS[kind][2])
    (folder / 'spiece.model').write_bytes(model)
    settings = {'tokenizer_class': 'T5Tokenizer', 'eos_token': '</s>', 'unk_token': '<unk>', 'pad_token': '<pad>'}
    if kind == 'MADLAD-400':
        settings |= {'pad_token': '<s>', 'extra_ids': 0}
    else:
        settings['extra_ids'] = SENTINELS
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings))
    return len(pieces(model)) + SENTINELS


def write_folder(folder: Path, kind: str, *, rows: int | None = None, seed: int = 0, **changes: Any) -> Path:
    """A whole folder, written by this package alone; with `rows` its tokenizer is there already.

    The parameters are random, and outputs vary.
    """
    from safetensors.numpy import save_file

    from flax_transformer.huggingface.settings import read_model
    from flax_transformer.huggingface.weights import names, shapes

    model_type, settings, _ = MODELS[kind]
    sizes = {'d_model': 32, 'd_kv': 6, 'num_heads': 4, 'd_ff': 48, 'num_layers': 2, 'num_decoder_layers': 2}
    theirs = {
        'model_type': model_type,
        'architectures': [f'{model_type.upper()}ForConditionalGeneration'],
        'vocab_size': rows or write_tokenizer(folder, kind),
        **sizes,
        'relative_attention_num_buckets': 32,
        'relative_attention_max_distance': 128,
        'dropout_rate': 0.0,
        'layer_norm_epsilon': 1e-6,
        **settings,
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'config.json').write_text(json.dumps(theirs))
    ids = {name: theirs[name] for name in _IN_T5}
    (folder / 'generation_config.json').write_text(json.dumps(ids | {'max_length': 16}))

    config, rng, tensors = read_model(theirs), np.random.default_rng(seed), {}
    our_shapes = shapes(config)
    for ours, name, change in names(config):
        if ours not in our_shapes:
            continue
        values = rng.normal(size=our_shapes[ours])
        if ours.endswith('query/kernel'):
            values *= 3 * values.size**-0.5
        elif ours.endswith('kernel'):
            values *= 1.5 * len(values) ** -0.5
        elif ours.endswith('scale'):
            values = (0.1 * values + 1) * (4 if 'decoder/final' in ours else 1)
        elif ours == 'embedding/table':
            values *= 0.3  # else a tied model repeats what it reads
        elif ours == 'projection':
            values *= len(values) ** -0.5
        tensors[name] = np.ascontiguousarray(values.T if change == 'transposed' else values, np.float32)
    save_file(tensors, folder / 'model.safetensors')
    return folder

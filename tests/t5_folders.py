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
    """A whole folder with random parameters, whose outputs vary; with `rows` its tokenizer is there already."""
    from safetensors.numpy import save_file

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

    save_file(random_tensors(theirs, np.random.default_rng(seed)), folder / 'model.safetensors')
    return folder


def random_tensors(theirs: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Their arrays by their names, written down here and not taken from the package."""
    d_model, inner = theirs['d_model'], theirs['num_heads'] * theirs['d_kv']
    tensors = {}

    def draw(name: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> None:
        tensors[f'{name}.weight'] = (mean + scale * rng.normal(size=shape)).astype(np.float32)

    draw('shared', theirs['vocab_size'], d_model, scale=0.3)  # larger, a tied model repeats what it reads
    if not theirs.get('tie_word_embeddings', True):
        draw('lm_head', theirs['vocab_size'], d_model, scale=d_model**-0.5)
    is_gated = theirs['feed_forward_proj'].startswith('gated')
    for side, attentions in (('encoder', ['SelfAttention']), ('decoder', ['SelfAttention', 'EncDecAttention'])):
        draw(f'{side}.final_layer_norm', d_model, scale=0.1, mean=4 if side == 'decoder' else 1)
        for block in range(theirs['num_layers' if side == 'encoder' else 'num_decoder_layers']):
            for number, kind in enumerate([*attentions, 'DenseReluDense']):
                layer = f'{side}.block.{block}.layer.{number}'
                draw(f'{layer}.layer_norm', d_model, scale=0.1, mean=1)
                if kind == 'DenseReluDense':
                    for part in ('wi_0', 'wi_1') if is_gated else ('wi',):
                        draw(f'{layer}.{kind}.{part}', theirs['d_ff'], d_model, scale=1.5 * d_model**-0.5)
                    draw(f'{layer}.{kind}.wo', d_model, theirs['d_ff'], scale=1.5 * theirs['d_ff'] ** -0.5)
                    continue
                draw(f'{layer}.{kind}.q', inner, d_model, scale=3 * (inner * d_model) ** -0.5)
                for part in 'kv':
                    draw(f'{layer}.{kind}.{part}', inner, d_model, scale=1.5 * d_model**-0.5)
                draw(f'{layer}.{kind}.o', d_model, inner, scale=1.5 * inner**-0.5)
                if block == 0 and kind == 'SelfAttention':
                    draw(f'{layer}.{kind}.relative_attention_bias', 32, theirs['num_heads'])
    return tensors

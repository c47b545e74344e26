"""Small models of the layout of NLLB-200, M2M-100 and mBART-50, all their languages included, in folders."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from marian_folders import pieces, spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from flax_transformer.huggingface.fairseq_tokenizer import LANGUAGES

KINDS = tuple(LANGUAGES)
LINES = [f'The quick brown fox number {n} jumps, over the lazy dog.' for n in range(120)]
LINES += [f'Größe, Straße und {n} süße Äpfel; 我们 понимаем.' for n in range(120)]
# Model type, class of the model, and what config.json says in addition; rows after the languages.
MODELS = {
    'NllbTokenizer': ('m2m_100', 'M2M100ForConditionalGeneration', {}, 3),
    'M2M100Tokenizer': ('m2m_100', 'M2M100ForConditionalGeneration', {}, 8),
    'MBart50Tokenizer': (
        'mbart',
        'MBartForConditionalGeneration',
        {'normalize_before': True, 'normalize_embedding': True, 'add_final_layer_norm': True}
        | {'static_position_embeddings': False, 'activation_function': 'gelu'},
        1,
    ),
}


def write_tokenizer(folder: Path, kind: str, lines: list[str] = LINES, size: int = 300) -> int:
    """The tokenizer's files as transformers before 5 wrote them; returns the rows of its model."""
    folder.mkdir(parents=True, exist_ok=True)
    algorithm = 'unigram' if kind == 'MBart50Tokenizer' else 'bpe'
    model = spm(lines, size, model_type=algorithm, bos_id=1, eos_id=2, unk_id=0, pad_id=-1)
    (folder / 'sentencepiece.bpe.model').write_bytes(model)
    (folder / 'tokenizer_config.json').write_text(json.dumps({'tokenizer_class': kind, 'model_max_length': 60}))
    known = ['<s>', '<pad>', '</s>', '<unk>', *pieces(model)[3:]]
    if kind == 'M2M100Tokenizer':
        known = known[:4] + known[4:-3][::-1]  # an order of its own, and a few pieces left out
        (folder / 'vocab.json').write_text(json.dumps({piece: i for i, piece in enumerate(known)}, ensure_ascii=False))
    return len(known) + len(LANGUAGES[kind]) + MODELS[kind][-1]


def save_as_transformers_5(folder: Path, kind: str, added: tuple[str, ...] = ()) -> None:
    """Puts the one tokenizer.json that transformers 5 writes in place of NLLB-200's or mBART-50's SentencePiece model.

    `added` are languages after the last token.
    """
    file = folder / 'sentencepiece.bpe.model'
    proto = ModelProto.FromString(file.read_bytes())
    file.unlink()
    known = [(piece, 0.0) for piece in ('<s>', '<pad>', '</s>', '<unk>')]
    known += [(piece.piece, piece.score) for piece in proto.pieces[3:]]
    ids = {piece: i for i, (piece, _) in enumerate(known)}
    special = {**ids, **{code: len(ids) + i for i, code in enumerate([*LANGUAGES[kind], '<mask>', *added])}}
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    splits = [(piece[:end], piece[end:]) for piece in ids for end in range(1, len(piece))]
    model = {'type': 'BPE', 'vocab': ids, 'merges': [pair for pair in splits if ids.keys() >= {*pair}]}
    if kind == 'MBart50Tokenizer':
        model = {'type': 'Unigram', 'unk_id': 3, 'vocab': known + [(code, 0.0) for code in list(special)[len(ids) :]]}
    steps = [{'type': 'Precompiled', 'precompiled_charsmap': charsmap}]
    steps += [{'type': 'Replace', 'pattern': {'Regex': ' {2,}'}, 'content': ' '}]
    tokens = [(code, i) for code, i in special.items() if i < 4 or i >= len(ids)]
    content = {
        'added_tokens': [{'id': i, 'content': code, 'special': True} for code, i in tokens],
        'normalizer': {'type': 'Sequence', 'normalizers': steps},
        'pre_tokenizer': {'type': 'Metaspace', 'replacement': '\u2581', 'prepend_scheme': 'always', 'split': True},
        'model': model,
    }
    (folder / 'tokenizer.json').write_text(json.dumps(content), encoding='utf-8')


def settings(kind: str, rows: int, **changes: Any) -> dict[str, Any]:
    """config.json of a model of width 32 with two layers."""
    model_type, architecture, rest, _ = MODELS[kind]
    return {
        'model_type': model_type,
        'architectures': [architecture],
        'vocab_size': rows,
        'd_model': 32,
        **{f'{side}_{name}': value for side in ('encoder', 'decoder') for name, value in _SIZES.items()},
        'max_position_embeddings': 128,
        'activation_function': 'relu',
        'scale_embedding': True,
        'dropout': 0.0,
        'pad_token_id': 1,
        'bos_token_id': 0,
        'eos_token_id': 2,
        'decoder_start_token_id': 2,
        **rest,
        **changes,
    }


_SIZES = {'layers': 2, 'attention_heads': 4, 'ffn_dim': 48}


def write_folder(folder: Path, kind: str, *, rows: int | None = None, seed: int = 0, **changes: Any) -> Path:
    """A whole folder, written by this package alone; with `rows` its tokenizer is there already.

    The parameters are random, and outputs vary: embeddings have one norm, so that no piece always wins, and steps are
    large, so that the next token depends on those before it.
    """
    from flax.traverse_util import unflatten_dict
    from safetensors.numpy import save_file

    from flax_transformer.huggingface.settings import read_model
    from flax_transformer.huggingface.weights import shapes, to_tensors

    theirs = settings(kind, rows or write_tokenizer(folder, kind), **changes)
    (folder / 'config.json').write_text(json.dumps(theirs))
    (folder / 'generation_config.json').write_text(
        json.dumps({'decoder_start_token_id': 2, 'eos_token_id': 2, 'pad_token_id': 1, 'max_length': 16})
    )
    config, rng = read_model(theirs), np.random.default_rng(seed)
    drawn = {}
    for name, shape in shapes(config).items():
        values = rng.normal(size=shape)
        if name.endswith('kernel'):
            values *= 1.5 * shape[0] ** -0.5
        elif name.endswith('table'):
            values /= np.linalg.norm(values, axis=1, keepdims=True)
        else:
            values = 0.1 * values + name.endswith('scale') * (2 if 'final' in name else 1)
        drawn[name] = values.astype(np.float32)
    save_file(to_tensors(unflatten_dict(drawn, sep='/'), config), folder / 'model.safetensors')
    return folder

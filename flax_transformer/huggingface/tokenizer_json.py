"""The SentencePiece model that a tokenizer.json was made from, which is all that transformers 5 saves of it."""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from flax_transformer.common.errors import refuse_faults
from flax_transformer.common.files import naming_damage
from flax_transformer.common.json_text import read_json

LARGEST = 200_000_000  # bytes
_KINDS = ModelProto.SentencePiece
_MERGED = {'Sequence', 'Precompiled', 'Replace', 'Strip', 'Prepend', 'Metaspace', 'WhitespaceSplit'}


def read_sentencepiece(file: Path, first: Sequence[int]) -> tuple[bytes, dict[str, Any]]:
    """The SentencePiece model in a tokenizer.json, and the special tokens beside it, by id, as transformers notes them.

    Args:
      first: the ids there of the model's first pieces, unk, bos and eos in its own order; the rest follow in order.
    """
    with naming_damage(file, 'copy it again'):
        settings = read_json(file, LARGEST)
        model = settings['model']
        kind = model['type']
        added = {token['id']: token for token in settings['added_tokens']}
        steps = [*_steps(settings['normalizer']), *_steps(settings['pre_tokenizer'])]
        faults = [f'{step["type"]}: not a step of SentencePiece' for step in steps if step['type'] not in _MERGED]
        plain = [token['content'] for token in added.values() if not token['special']]
        faults += [f'added token {text!r}: not special' for text in plain if not text.startswith('<2')]
        if kind == 'Unigram':
            scores = dict(model['vocab'])
            ids = {piece: i for i, (piece, _) in enumerate(model['vocab'])}
        elif kind == 'BPE':
            ids = model['vocab']
            scores = _scores(model['merges'])
            if not scores.keys() <= ids.keys() or _num_splits(ids) != len(model['merges']):
                faults.append('merges: not those of all pieces, as SentencePiece merges them')
        else:
            faults.append(f'model.type={kind!r}: expected "Unigram" or "BPE"')
        refuse_faults(f'{file}: its tokenizer is none of SentencePiece:', faults)

        proto = ModelProto()
        proto.trainer_spec.model_type = 1 if kind == 'Unigram' else 2
        proto.trainer_spec.byte_fallback = bool(model.get('byte_fallback'))
        proto.normalizer_spec.add_dummy_prefix = any(step.get('prepend_scheme') != 'never' for step in steps)
        for step in steps:
            if step['type'] == 'Precompiled':
                proto.normalizer_spec.precompiled_charsmap = base64.b64decode(step['precompiled_charsmap'])
        pieces = {i: piece for piece, i in ids.items()}
        last = max((i for i in pieces if i not in added), default=0)
        for i in [*first, *range(max(first) + 1, last + 1)]:
            piece = pieces.get(i, f'<no piece {i}>')
            entry = proto.pieces.add(piece=piece, score=scores.get(piece, 0.0), type=_KINDS.NORMAL)
            if piece == '<unk>':
                entry.type = _KINDS.UNKNOWN
            elif i in added:
                entry.type = _KINDS.CONTROL
            elif i not in pieces:
                entry.type = _KINDS.UNUSED
            elif proto.trainer_spec.byte_fallback and len(piece) == 6 and piece.startswith('<0x'):
                entry.type = _KINDS.BYTE
        return proto.SerializeToString(), {str(token.pop('id')): token for token in added.values()}


def _steps(step: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The steps of a normalizer or pre-tokenizer, its sequences unfolded."""
    for inner in (step or {}).get('normalizers', []) + (step or {}).get('pretokenizers', []):
        yield from _steps(inner)
    if step:
        yield step


def _scores(merges: list[Any]) -> dict[str, float]:
    """The score of each merged piece, higher if it is merged earlier."""
    scores = {}
    for rank, merge in enumerate(merges):
        piece = ''.join(merge.split(' ') if isinstance(merge, str) else merge)
        scores.setdefault(piece, -float(rank))
    return scores


def _num_splits(ids: dict[str, int]) -> int:
    """In how many ways pieces are made of two."""
    return sum(piece[:end] in ids and piece[end:] in ids for piece in ids for end in range(1, len(piece)))

"""T5's tokenizers as ours: SentencePiece's own ids, of which the tag of a target language, such as `<2de>`, is one.

SentencePiece puts a space before each line, hence before its tag: MADLAD-400 has learned `▁ <2de> ▁A ▁line`. Such a
tag has a score, which no control piece needs.
"""

import re
from pathlib import Path

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage
from flax_transformer.text.sentencepiece_model import open_model, read_model
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.config import TransformerConfig

from .tokenizer_json import read_sentencepiece

_MOST_UNUSED = 10_000  # rows after the pieces
_AFTER_SPACE = -1.0


def read_spiece(folder: Path, config: TransformerConfig) -> SentencePieceTokenizer:
    """The tokenizer of a folder, with as many ids as the model has rows."""
    file = folder / 'spiece.model'
    is_json = not file.is_file() and (folder / 'tokenizer.json').is_file()
    if is_json:  # all that transformers 5 saves
        file = folder / 'tokenizer.json'
    with naming_damage(file, 'copy it again'):
        model = read_sentencepiece(file, first=(0, 1, 2))[0] if is_json else read_model(file)
        open_model(model)
    proto = ModelProto.FromString(model)
    size = len(proto.pieces)
    if not 0 <= config.vocab_size - size <= _MOST_UNUSED:
        raise UserError(f'{file} has {size} pieces, and the model {config.vocab_size} rows')

    control = ModelProto.SentencePiece.CONTROL
    for piece in proto.pieces:
        if re.fullmatch(r'<2[a-z]{2,3}(_\w+)?>', piece.piece):
            piece.type = control
            piece.score = _AFTER_SPACE
    for number in range(size, config.vocab_size):  # such as T5's sentinels, which no text has
        proto.pieces.add(piece=f'<{number}>', type=control)
    pad, eos = proto.pieces[config.pad_id], proto.pieces[config.eos_id]
    if ModelProto.SentencePiece.UNKNOWN in (pad.type, eos.type):
        ids = f'pad_token_id={config.pad_id}, eos_token_id={config.eos_id}'
        raise UserError(f'{ids}: one is the unknown piece of {file}')
    pad.type = eos.type = control
    proto.trainer_spec.pad_piece = pad.piece
    proto.trainer_spec.eos_piece = eos.piece
    proto.DiscardUnknownFields()  # such as samples that loading would compare
    return SentencePieceTokenizer(proto.SerializeToString())

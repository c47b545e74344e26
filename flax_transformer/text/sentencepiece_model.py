"""Opening a SentencePiece model that a stranger may have made."""

from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited
from flax_transformer.common.installing import pip_install

_MOST = 64 << 20  # bytes; the models of 256,000 pieces that are in use have 5 million


def read_model(file: Path) -> bytes:
    """The bytes of a model. Raises UserError for no regular file, one that is too large, or without protobuf."""
    _format()
    return read_limited(file, _MOST)


def open_model(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a model. Raises ValueError for bytes that are none, or that would later give invalid UTF-8.

    SentencePiece opens an empty file as a model without pieces, and raises on invalid text only when it is met.
    """
    model_format = _format()
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        every = range(processor.vocab_size())
        for token_id in every:
            processor.id_to_piece(token_id)
        processor.decode(list(every))
        proto = model_format.ModelProto.FromString(model)
        for spec in (proto.normalizer_spec, proto.denormalizer_spec):
            _check_replacements(spec.precompiled_charsmap)
    except Exception as error:  # a damaged model can raise anything
        raise ValueError(f'is not a SentencePiece model ({type(error).__name__})') from None
    if not every:
        raise ValueError('is not a SentencePiece model: it has no pieces')
    return processor


def _format() -> Any:
    """The module that takes a model's file apart. Raises UserError without protobuf."""
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise UserError(f'a SentencePiece model cannot be opened ({error}): {pip_install("protobuf")}') from None
    return sentencepiece_model_pb2


def _check_replacements(charsmap: bytes) -> None:
    """Raises ValueError unless every replacement of a normalization is valid UTF-8.

    A charsmap is the size of a trie, the trie, and the replacements, each ended by a zero byte; a unit of the trie with
    its highest bit set is the place of one.
    """
    if not charsmap:
        return
    size = int.from_bytes(charsmap[:4], 'little')
    texts = charsmap[4 + size :]
    texts.decode()
    units = np.frombuffer(charsmap[4 : 4 + size], '<u4')
    places = np.unique(units[units >= 1 << 31]) - (1 << 31)
    starts = np.concatenate([[0], np.flatnonzero(np.frombuffer(texts, np.uint8) == 0)[:-1] + 1])
    if not np.isin(places, starts).all():
        raise ValueError('a normalization begins within a character')

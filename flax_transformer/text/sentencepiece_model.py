"""Opening a SentencePiece model that a stranger may have made."""

from pathlib import Path

import numpy as np
import sentencepiece

from flax_transformer.common.files import read_limited

_MOST = 64 << 20  # bytes; the models of 256,000 pieces that are in use have 5 million


def read_model(file: Path) -> bytes:
    """The bytes of a model. Raises UserError for what is no regular file, or too large to be one."""
    return read_limited(file, _MOST)


def open_model(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a model. Raises ValueError for bytes that are none, or that would later give invalid UTF-8.

    SentencePiece opens an empty file as a model without pieces, and raises on invalid text only when it is met.
    """
    from sentencepiece import sentencepiece_model_pb2

    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        every = range(processor.vocab_size())
        for token_id in every:
            processor.id_to_piece(token_id)
        processor.decode(list(every))
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        for spec in (proto.normalizer_spec, proto.denormalizer_spec):
            _check_replacements(spec.precompiled_charsmap)
    except Exception as error:  # a damaged model can raise anything
        raise ValueError(f'is not a SentencePiece model ({type(error).__name__})') from None
    if not every:
        raise ValueError('is not a SentencePiece model: it has no pieces')
    return processor


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

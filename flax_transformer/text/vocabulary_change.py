"""SentencePiece models with fewer pieces: lines are split as before where no dropped one would be used."""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto


def used_pieces(model: bytes, lines: Iterable[str]) -> list[int]:
    """Ids of the pieces that lines use, and of all characters, bytes and special pieces."""
    processor = SentencePieceProcessor(model_proto=model)
    proto = ModelProto.FromString(model)
    ids = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
    kept = {i for piece, i in ids.items() if piece not in scores or len(piece) == 1}
    kept.add(ids[min(scores, key=scores.get)])  # what an unknown character costs depends on it
    is_bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
    for i in {i for line in lines for i in processor.encode(line)}:
        kept |= {i, *(ids[merged] for merged in _merges(processor.id_to_piece(i), scores) if is_bpe)}
    return sorted(kept)


def _merges(piece: str, scores: Mapping[str, float]) -> Iterator[str]:
    """What BPE makes, and needs, on its way to a piece."""
    parts = list(piece)
    while len(parts) > 1:
        merged = [left + right for left, right in itertools.pairwise(parts)]
        best = max(merged, key=lambda made: scores.get(made, float('-inf')))
        if best not in scores:
            return
        at = merged.index(best)
        parts[at : at + 2] = [best]
        yield best


def with_pieces(model: bytes, kept: Iterable[int]) -> tuple[bytes, list[str]]:
    """The model with some of its pieces, by id; and these pieces."""
    proto = ModelProto.FromString(model)
    pieces = [ModelProto.SentencePiece.FromString(proto.pieces[i].SerializeToString()) for i in kept]
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    proto.DiscardUnknownFields()  # such as samples that loading would compare
    return proto.SerializeToString(), [piece.piece for piece in pieces]

"""SentencePiece models with fewer pieces or more: lines are split as before where none of these would be used."""

import io
import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto

_RARE = 10  # a new character that occurs less often gets no piece
_GAIN = 1e-3  # nats by which unigram prefers a new piece to its parts
_FIRST = 0x10000  # the character that stands for id 0 where merges of ids are learned


class NewPiece(NamedTuple):
    piece: str
    score: float
    parts: tuple[str, ...]  # the pieces that it was split into before


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


def with_pieces(
    model: bytes, kept: Iterable[int], new: Iterable[NewPiece] = (), controls: Sequence[str] = ()
) -> tuple[bytes, list[str]]:
    """The model with some of its pieces, by id, and then new ones; and all of these pieces."""
    proto = ModelProto.FromString(model)
    pieces = [ModelProto.SentencePiece.FromString(proto.pieces[i].SerializeToString()) for i in kept]
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    for piece, score, _ in new:
        proto.pieces.add(piece=piece, score=score)
    for piece in controls:
        proto.pieces.add(piece=piece, type=ModelProto.SentencePiece.CONTROL)
    proto.DiscardUnknownFields()  # such as samples that loading would compare
    return proto.SerializeToString(), [piece.piece for piece in proto.pieces]


def learn_pieces(model: bytes, lines: Sequence[str], count: int) -> list[NewPiece]:
    """At most `count` pieces: frequent characters without one, then merges of pieces, as byte-pair encoding goes on.

    They come after the old ones, so few lines of other texts are split otherwise.
    """
    old = SentencePieceProcessor(model_proto=model)
    proto = ModelProto.FromString(model)
    size, lowest = len(proto.pieces), min(piece.score for piece in proto.pieces)
    new: dict[str, NewPiece] = {}

    def add(piece: str, parts: Sequence[str]) -> None:
        score = lowest - 1 - len(new)
        if proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
            score = _GAIN * len(parts) + sum(old.get_score(old.piece_to_id(part)) or lowest for part in parts)
        new.setdefault(piece, NewPiece(piece, score, tuple(parts)))

    for character, times in Counter(''.join(map(old.normalize, lines))).most_common(count):
        if times >= _RARE and old.piece_to_id(character) == old.unk_id():
            add(character, [f'<0x{byte:02X}>' for byte in character.encode()])
    grown = SentencePieceProcessor(model_proto=with_pieces(model, range(size), new.values())[0])
    learned = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=_words(grown, lines),
        model_writer=learned,
        model_type='bpe',
        vocab_size=size + count,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name='identity',
        add_dummy_prefix=False,
        split_by_unicode_script=False,
        minloglevel=2,
    )
    for merged in ModelProto.FromString(learned.getvalue()).pieces:
        if merged.type == merged.NORMAL and len(merged.piece) > 1:
            parts = [grown.id_to_piece(ord(character) - _FIRST) for character in merged.piece]
            before = [new[part].parts if part in new else (part,) for part in parts]
            add(''.join(parts), [*itertools.chain.from_iterable(before)])
    return [*new.values()][:count]


def _words(processor: SentencePieceProcessor, lines: Iterable[str]) -> Iterator[str]:
    """Words as characters that stand for the ids of their pieces; bytes, signs and special pieces part words.

    A sign in a piece, as in "ion.", would split the ends of all other languages' lines anew.
    """
    kinds = processor.is_byte, processor.is_unknown, processor.is_control
    for line in lines:
        words = ''
        for i in processor.encode(line):
            piece = processor.id_to_piece(i)
            has_letters = any(unicodedata.category(sign)[0] in 'LMN' for sign in piece)
            is_apart = not has_letters or any(is_such(i) for is_such in kinds)
            words += ' ' * (is_apart or piece.startswith('\u2581'))
            words += chr(_FIRST + i) * (not is_apart)
        yield from words.split()

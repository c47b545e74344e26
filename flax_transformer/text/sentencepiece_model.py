"""SentencePiece models: learned from text, and opened although a stranger may have made them."""

import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited

_MOST = 64 << 20  # bytes; the models of 256,000 pieces that are in use have 5 million


def read_model(file: Path) -> bytes:
    """Raises UserError for no regular file, or one that is too large."""
    return read_limited(file, _MOST)


def open_model(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a model. Raises ValueError for bytes that are none, or whose pieces are not valid UTF-8."""
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        token_ids = list(range(processor.vocab_size()))
        for token_id in token_ids:
            processor.id_to_piece(token_id)  # only now raises on invalid text
        processor.decode(token_ids)
    except Exception as error:  # a damaged model can raise anything
        raise ValueError(f'is not a SentencePiece model ({type(error).__name__})') from None
    if not token_ids:
        raise ValueError('is not a SentencePiece model: it has no pieces')
    return processor


def train_sentencepiece(
    lines: Iterable[str],
    *,
    vocab_size: int,
    algorithm: str = 'bpe',
    normalization: str = 'identity',
    byte_fallback: bool = True,
    character_coverage: float = 0.9999,
    pad_id: int = 0,
    eos_id: int = 1,
    unk_id: int = 2,
    languages: Iterable[str] = (),
    marks: Iterable[str] = (),
) -> bytes:
    """A SentencePiece model of `vocab_size` pieces, special, byte ones, tags of `languages` and marks included.

    Raises UserError, with the limit, if the lines have too little text for the vocabulary, or the vocabulary too few
    pieces for their characters.
    """
    for name, value in (('pad_id', pad_id), ('eos_id', eos_id), ('unk_id', unk_id)):
        if not 0 <= value < vocab_size:
            raise UserError(f'{name}={value}: expected an id from 0 to vocab_size - 1 = {vocab_size - 1}')
    writer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=writer,
            vocab_size=vocab_size,
            model_type=algorithm,
            normalization_rule_name=normalization,
            remove_extra_whitespaces=False,
            byte_fallback=byte_fallback,
            character_coverage=character_coverage,
            pad_id=pad_id,
            eos_id=eos_id,
            unk_id=unk_id,
            bos_id=-1,
            control_symbols=[*(f'<2{language}>' for language in languages), *marks],
            max_sentence_length=1_000_000,  # bytes; a longer line would be skipped silently
            num_threads=os.cpu_count() or 1,  # changes nothing in BPE
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(str(error), vocab_size) from None
    return writer.getvalue()


def _explained(message: str, vocab_size: int) -> UserError:
    if match := re.search(r'value <= (\d+)', message):
        return UserError(
            f'model.vocab_size={vocab_size} is more than this text gives pieces for; '
            f'expected at most {match[1]}: set --model.vocab-size {match[1]} or bring more text'
        )
    if match := re.search(r'(\d+) vs (\d+)', message):
        return UserError(
            f'model.vocab_size={vocab_size} is less than the {match[2]} special pieces, bytes and characters that it '
            f'must hold; set --model.vocab-size above {match[2]}, or lower --tokenizer.character-coverage'
        )
    if 'sentences_.empty()' in message:
        return UserError('the text to train a tokenizer on is empty; expected at least one line')
    return UserError(f'SentencePiece could not train a tokenizer of {vocab_size} pieces: {message}')

"""SentencePiece between text and ids: one joint model for both languages, all special ids explicit.

Under identity normalisation every valid UTF-8 line comes back from its ids as it was, except that U+2581, which
SentencePiece uses for the space, comes back as one.
"""

import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from flax_transformer.errors import UserError

MODEL_FILE = 'sentencepiece.model'
DESCRIPTION_FILE = 'tokenizer.json'


class Tokenizer:
    """Text to ids and back."""

    def __init__(self, model: bytes) -> None:
        self.model = model  # SentencePiece's own bytes
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(
        cls,
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
    ) -> 'Tokenizer':
        """A tokenizer of exactly `vocab_size` pieces learned from lines of text, special and byte pieces included.

        Raises UserError, with the limit, where the lines do not suffice for the vocabulary or the vocabulary not
        for their characters. BPE's pieces do not depend on the number of threads.
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
                max_sentence_length=1_000_000,  # bytes; a longer line would be left out without a word
                num_threads=os.cpu_count() or 1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _explained(str(error), vocab_size) from None
        return cls(writer.getvalue())

    @classmethod
    def load(cls, folder: Path) -> 'Tokenizer':
        """The tokenizer that `save` wrote. Raises UserError where a file is missing or is not a model."""
        for name in (MODEL_FILE, DESCRIPTION_FILE):
            if not (folder / name).is_file():
                raise UserError(f'{folder / name} is missing: a run directory keeps its tokenizer there')
        kind = kind_of(folder)
        if kind != 'sentencepiece':
            raise UserError(f'{folder / DESCRIPTION_FILE}: kind is {kind!r}, expected "sentencepiece"')
        model = (folder / MODEL_FILE).read_bytes()
        try:
            if model:  # nothing at all would load, as a tokenizer without pieces
                return cls(model)
        except (RuntimeError, TypeError):
            pass
        raise UserError(f'{folder / MODEL_FILE} is not a SentencePiece model; copy it from the run again')

    def save(self, folder: Path) -> None:
        """Writes the folder that `load` reads; a tokenizer is whole or not there."""
        folder.mkdir(parents=True, exist_ok=True)
        description = json.dumps({'kind': 'sentencepiece', 'vocab_size': self.vocab_size}, indent=2) + '\n'
        for name, content in ((MODEL_FILE, self.model), (DESCRIPTION_FILE, description.encode())):
            write_whole(folder / name, content)

    @property
    def vocab_size(self) -> int:
        return self._processor.vocab_size()

    @property
    def target_vocab_size(self) -> int:
        """Pieces of the target side; the same where the sides share their pieces."""
        return self.vocab_size

    @property
    def pad_id(self) -> int:
        return self._processor.pad_id()

    @property
    def eos_id(self) -> int:
        return self._processor.eos_id()

    @property
    def unk_id(self) -> int:
        return self._processor.unk_id()

    def piece(self, token_id: int) -> str:
        """The text of one piece, with U+2581 for the space."""
        return self._processor.id_to_piece(int(token_id))

    def source_piece(self, token_id: int) -> str:
        """The text of one piece of a source; as `piece` where the sides share their pieces."""
        return self.piece(token_id)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, EOS last. Lone surrogates, which UTF-8 cannot hold, become question marks."""
        lines = [line.encode('utf-8', 'replace').decode('utf-8') for line in lines]
        return self._processor.encode(lines, add_eos=True)

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each target line, EOS last; those of a source line where the sides share their pieces."""
        return self.encode(lines)

    def decode(self, ids: Sequence[int]) -> str:
        """One line of valid UTF-8, whatever ids below vocab_size: pad and EOS give nothing, a line break a space.

        Bytes that are no character become U+FFFD.
        """
        return self._processor.decode([int(i) for i in ids]).replace('\n', ' ')


def kind_of(folder: Path) -> str | None:
    """What kind of tokenizer a run's folder describes; None where it describes none."""
    file = folder / DESCRIPTION_FILE
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_text(encoding='utf-8'))['kind']
    except (ValueError, TypeError, KeyError):
        raise UserError(f'{file} is damaged: expected {{"kind": "sentencepiece"}}') from None


def write_whole(file: Path, content: bytes) -> None:
    """Writes the file whole or not at all."""
    partial = file.with_name(file.name + '.partial')
    partial.write_bytes(content)
    partial.replace(file)


def _explained(message: str, vocab_size: int) -> UserError:
    """SentencePiece's message in terms of our fields."""
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

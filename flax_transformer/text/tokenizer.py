"""Text to ids and back: what the package asks of a tokenizer, whichever library is inside, and its config."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check_positive, check_range, check_types
from flax_transformer.common.files import naming_damage, write_whole
from flax_transformer.common.json_text import read_json

MARKS = '<term>', '<is>', '</term>'  # control pieces of a vocabulary with terms
DESCRIPTION_FILE = 'tokenizer.json'  # every stored tokenizer's kind, and what else that kind needs
# Thai, Lao and Tibetan; Myanmar; Khmer; kana; Han, with compatibility forms and the planes of rare characters.
UNSPACED = '[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]'


class Portable(NamedTuple):
    """All that a program with SentencePiece alone needs to go from text to ids and back."""

    source: bytes  # SentencePiece models of both sides
    target: bytes
    source_ids: dict[str, int]  # keyed by piece; any other is unk
    target_pieces: list[str]  # indexed by id; empty for ids that give no text


class Tokenizer(Protocol):
    """Text to ids and back; source and target may have vocabularies of their own.

    Several target languages have a tag each, a piece that begins the source's ids (Johnson et al. 2017, section 3), or
    the target's. Lone surrogates become question marks.
    """

    vocab_size: int  # pieces of the source side
    target_vocab_size: int
    pad_id: int
    eos_id: int
    unk_id: int
    digest: str  # a hash of everything that decides the ids
    languages: Mapping[str, int]  # the target languages that have a tag, each with its id
    tags_to_ban: tuple[int, ...]  # they must not appear in a translation
    marks: tuple[int, ...] = ()  # around the words of a term, and after its translation, as in `term_marks`

    def tag_id(self, language: str | None) -> int | None:
        """The tag of a target language that begins sources, if any.

        Raises UserError for a language without a tag, and for None where one must be chosen.
        """

    def beginning(self, language: str | None) -> list[int]:
        """What begins sources: the tag of a target language, if any, and what stands before it."""
        tag = self.tag_id(language)
        return [] if tag is None else [tag]

    def first_id(self, language: str | None) -> int | None:
        """The tag of a target language that begins targets, if any."""
        return None

    def reading(self, language: str) -> Self:
        """The tokenizer of sources in a language, where sources name theirs; else this one."""
        return self

    def default_language(self, language: str) -> str | None:
        """The target language where none is asked for; `language` is that of the training data."""

    def piece(self, token_id: int) -> str:
        """The text of a target piece, with U+2581 for the space."""

    def source_piece(self, token_id: int) -> str:
        """The same for a source piece."""

    def encode(self, lines: Sequence[str], *, target_language: str | None = None) -> list[list[int]]:
        """Ids of each source line, EOS last; given a target language, its tag first."""

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each target line, EOS last."""

    def encode_flat(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids [tokens] int32 of all source lines end to end, each with EOS last, and their lengths [lines]."""
        return flat(self.encode(lines))

    def encode_target_flat(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return flat(self.encode_target(lines))

    def sample_flat(self, lines: Sequence[str], *, seeds: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """A random segmentation of each line, a pure function of it and its seed, uint64; shapes as `encode_flat`.

        For BPE, alpha is the rate of dropped merges (Provilkov et al. 2020); for unigram, the power of the
        segmentations' probabilities (Kudo 2018, section 3.2).
        """
        raise UserError(
            'data.bpe_dropout and unigram_alpha are not for the tokenizer of an imported model; set them to 0'
        )

    def has_piece_for(self, character: str) -> bool:
        """True if a source character has a piece of its own."""

    def decode(self, ids: Sequence[int]) -> str:
        """One line of valid UTF-8, whatever the ids: pad and EOS give nothing, a line break gives a space."""

    def portable(self) -> Portable:
        """For programs that do not have this package."""

    def fewer(self, lines: Sequence[str], languages: Sequence[str]) -> Self:
        """With the pieces of `used_pieces` alone, and the tags of languages."""

    def more(self, language: str, lines: Sequence[str], count: int) -> tuple[Self, dict[str, Any]]:
        """With a tag and pieces of `learn_pieces` more; and the parts of these."""
        raise UserError('add-language: expected a model with tags of languages, which another could join')

    def save(self, folder: Path) -> None:
        """Writes the tokenizer into a folder, the description last, so that it is complete once that is there."""


def flat(ids: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    return np.fromiter(itertools.chain.from_iterable(ids), np.int32, int(lengths.sum())), lengths


def kind_of(folder: Path) -> str | None:
    file = folder / DESCRIPTION_FILE
    if not file.is_file():
        return None
    with naming_damage(file):
        return read_json(file)['kind']


def write_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Writes files by name, in order, all but bytes as JSON, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, bytes) else json.dumps(content, indent=2, ensure_ascii=False) + '\n'
        write_whole(folder / name, text)


@dataclass(frozen=True)
class TokenizerConfig:
    """SentencePiece, trained once on both sides of the training pairs and kept in the run directory."""

    algorithm: Literal['bpe', 'unigram'] = 'bpe'  # how SentencePiece chooses its pieces
    normalization: Literal['identity', 'nfkc', 'nmt_nfkc'] = 'identity'  # identity: every line survives the round trip
    byte_fallback: bool = True  # spell characters outside the vocabulary as UTF-8 bytes, not unk (256 pieces)
    character_coverage: float = 0.9999  # share of the text's characters that get their own piece
    unk_id: int = 2  # the piece for what no other piece can spell
    max_sentences: int = 500_000  # pairs it is trained on, evenly spaced if there are more

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'max_sentences')
        check_range(self, 'character_coverage', least=0.9, most=1)
        check_range(self, 'unk_id', least=0)


def count_unspaced(text: str) -> int:
    """The number of characters in scripts without spaces between words.

    >>> count_unspaced('我喜欢 JAX'), count_unspaced('나는 JAX를 좋아한다')
    (3, 0)
    """
    return len(re.findall(UNSPACED, text))


def as_text(line: str | bytes) -> tuple[str, bool]:
    """The line as valid Unicode, and whether anything in it became U+FFFD."""
    try:
        if isinstance(line, bytes):
            return line.decode('utf-8'), False
        if not isinstance(line, str):
            raise TypeError(f'got a line of type {type(line).__name__}, expected str or bytes')
        line.encode('utf-8')
        return line, False
    except UnicodeDecodeError:
        return line.decode('utf-8', 'replace'), True
    except UnicodeEncodeError:  # lone surrogates
        return line.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace'), True


def is_unspaced(lines: Iterable[str]) -> bool:
    """True if most of the text is in scripts without spaces between words."""
    unspaced = total = 0
    for line in lines:
        unspaced += count_unspaced(line)
        total += sum(map(len, line.split()))
    return 2 * unspaced > total

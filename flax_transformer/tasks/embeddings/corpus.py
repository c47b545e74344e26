"""Text as a file of word ids: the words are counted and the ids written in one pass, in bounded memory.

corpus.ids    int32, the words of each line in order, then END_OF_LINE; words outside of the vocabulary are left out
corpus.json   the text files and their checksums, and the digest of corpus.ids
"""

import hashlib
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import (
    MOST_WORDS,
    naming,
    naming_damage,
    own_partial,
    read_limited,
    sha256_of,
    write_whole,
    written_whole,
)
from flax_transformer.common.json_text import parse_json
from flax_transformer.data.held_out import held_out_rows
from flax_transformer.data.lines import each_line, listed, unchanged
from flax_transformer.data.named_files import data_root, matching_files
from flax_transformer.data.repeats import keys_of

from .config import TextConfig, WordsConfig

_MOST_COUNT = 1 << 62  # a vocabulary's counts add up to less, so that int64 holds them


class Vocabulary:
    """Words and how often the training text has each; a word's id is its index."""

    def __init__(self, words: Iterable[str], counts: Iterable[int]) -> None:
        self.words = tuple(words)
        self.counts = np.array(list(counts), np.int64)
        self.ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, counts: Mapping[str, int], *, min_count: int, size: int) -> 'Vocabulary':
        """The words that occur at least `min_count` times, at most `size` of them; equally frequent ones by name."""
        frequent = [(-count, word) for word, count in counts.items() if count >= min_count]
        kept = [word for _, word in sorted(frequent)[:size]]
        return cls(kept, (counts[word] for word in kept))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self._text().encode()).hexdigest()

    def _text(self) -> str:
        return ''.join(f'{word} {count}\n' for word, count in zip(self.words, self.counts.tolist(), strict=True))

    def save(self, file: Path) -> None:
        """Writes `word count` on each line."""
        write_whole(file, self._text())

    @classmethod
    def load(cls, file: Path) -> 'Vocabulary':
        """The vocabulary that `save` wrote. Raises UserError if the file is missing or damaged."""
        with naming_damage(file):
            *lines, rest = read_limited(file, MOST_WORDS).decode('utf-8').split('\n')
            if rest:
                raise ValueError('expected a line break at its end')
            rows = [line.rsplit(' ', 1) for line in lines]
            words = [word for word, _ in rows]
            counts = [int(count) for _, count in rows]
            if len(set(words)) < max(len(words), 2):
                raise ValueError('expected two or more words, each once')
            if min(counts) < 1 or sum(counts) > _MOST_COUNT:
                raise ValueError(f'expected counts of at least 1, and at most {_MOST_COUNT:,} together')
            return cls(words, counts)


IDS_FILE = 'corpus.ids'
DESCRIPTION_FILE = 'corpus.json'
END_OF_LINE = -1
_UNKNOWN = -2
_PIECE = 1 << 22  # ids held at once


@dataclass(frozen=True)
class Corpus:
    file: Path
    num_lines: int  # lines that have a known word
    num_words: int  # all words of the text
    num_known: int  # words that the vocabulary has
    digest: str  # SHA-256 of corpus.ids
    sources: list[dict[str, Any]]  # the text files
    pairs: list[Any] | None = None  # size and SHA-256 of corpus.counts, once it is written

    @property
    def ids(self) -> np.ndarray:
        """[num_known + num_lines] int32, read from the disk as needed."""
        return np.memmap(self.file, np.int32, mode='r')


def words_of(line: str, config: WordsConfig) -> list[str]:
    line = line.lower() if config.lower_case else line
    return line.split() if config.pattern == r'\S+' else re.findall(config.pattern, line)


class Text(NamedTuple):
    """Files, one after the other, or some of their lines."""

    files: Sequence[Path]
    is_own: np.ndarray | None = None  # [lines] bool; None: all

    def lines(self) -> Iterator[str]:
        """Raises UserError for bytes that are not UTF-8, with the line."""
        lines = itertools.chain.from_iterable(map(each_line, self.files))
        return lines if self.is_own is None else itertools.compress(lines, self.is_own)


def texts_of(data: TextConfig) -> dict[str, Text]:
    """The text to train on and, unless there is none, that for validation. Raises UserError for missing files."""
    root = data_root(data.root)
    train = Text(matching_files(data.train, root))
    if data.held_out:
        is_held_out = held_out_rows(data.train, data.held_out, keys_of(train.lines()))
        return {'train': train._replace(is_own=~is_held_out), 'validation': train._replace(is_own=is_held_out)}
    if data.validation:
        return {'train': train, 'validation': Text(matching_files(data.validation, root))}
    return {'train': train}


def lines_of_words(text: Text, config: WordsConfig) -> Iterator[list[str]]:
    """The words of each line."""
    for line in text.lines():
        yield words_of(line, config)


def encode(text: Text, vocabulary: Vocabulary, config: WordsConfig) -> np.ndarray:
    """The ids of a text that fits in memory, as corpus.ids has them."""
    known = vocabulary.ids
    written: list[int] = []
    for words in lines_of_words(text, config):
        ids = [known[word] for word in words if word in known]
        if ids:
            written += [*ids, END_OF_LINE]
    return np.array(written, np.int32)


def prepare_corpus(
    text: Text, config: WordsConfig, folder: Path, *, vocab_size: int, known: Vocabulary | None = None
) -> tuple[Corpus, Vocabulary]:
    """Writes a text as ids into a folder; returns it and its vocabulary.

    `known` is the vocabulary to use; None: the text's own. Raises UserError if there are no two words to learn.
    """
    raw = own_partial(folder / IDS_FILE)
    try:
        words, num_words = _write_numbers(text, config, raw)
        counts = np.zeros(len(words), np.int64)
        for piece in _pieces(raw):
            counts += np.bincount(piece[piece >= 0], minlength=len(words))
        vocabulary = known or Vocabulary.of(
            dict(zip(words, counts.tolist(), strict=True)), min_count=config.min_count, size=vocab_size
        )
        _check_enough(vocabulary, text.files, counts, config)

        # Indexed by a number of the pass; END_OF_LINE, -1, is the last.
        ids = np.array([*(vocabulary.ids.get(word, _UNKNOWN) for word in words), END_OF_LINE], np.int32)
        with written_whole(folder / IDS_FILE) as out:
            num_lines = sum(_write_known(ids, _pieces(raw), out))
    finally:
        raw.unlink(missing_ok=True)

    file = folder / IDS_FILE
    num_known = file.stat().st_size // 4 - num_lines
    corpus = Corpus(file, num_lines, num_words, num_known, sha256_of(file), listed(text.files))
    describe(corpus)
    return corpus, vocabulary


def describe(corpus: Corpus) -> None:
    description = {**asdict(corpus), 'file': IDS_FILE}
    write_whole(corpus.file.with_name(DESCRIPTION_FILE), json.dumps(description, indent=2) + '\n')


def is_as_noted(file: Path, noted: Any) -> bool:
    """Whether a file has the size and SHA-256 that were noted; the size first, as a sparse file takes hours to hash."""
    has_size = isinstance(noted, list) and noted[:1] == [file.stat().st_size]
    return has_size and noted[1:] == [sha256_of(file)]


def load_corpus(folder: Path, files: Sequence[Path], vocab_size: int) -> Corpus | None:
    """The corpus that `prepare_corpus` wrote from these files; None if it is missing or damaged, or they changed."""
    try:
        description = parse_json(read_limited(folder / DESCRIPTION_FILE))
        corpus = Corpus(**{**description, 'file': folder / IDS_FILE})
        is_whole = is_as_noted(corpus.file, [4 * (corpus.num_known + corpus.num_lines), corpus.digest])
        is_whole = is_whole and corpus.ids.min() >= END_OF_LINE and corpus.ids.max() < vocab_size
        return corpus if is_whole and unchanged(corpus.sources, files) is not None else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def _write_numbers(text: Text, config: WordsConfig, out: Path) -> tuple[list[str], int]:
    """Writes each line's words as numbers, then END_OF_LINE; returns the words by number, and how many were read."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    total = 0
    piece: list[int] = []
    with naming(out), out.open('wb') as opened:
        for words in lines_of_words(text, config):
            piece += [*map(numbers.__getitem__, words), END_OF_LINE]
            total += len(words)
            if len(piece) >= _PIECE:
                opened.write(np.array(piece, np.int32).tobytes())
                piece = []
        opened.write(np.array(piece, np.int32).tobytes())
    return list(numbers), total


def _pieces(file: Path) -> Iterator[np.ndarray]:
    with file.open('rb') as opened:
        while len(piece := np.fromfile(opened, np.int32, _PIECE)):
            yield piece


def _write_known(ids: np.ndarray, pieces: Iterable[np.ndarray], out: BinaryIO) -> Iterator[int]:
    """Writes the ids of numbers, without unknown words and empty lines; yields the lines of each piece."""
    last = END_OF_LINE
    for piece in pieces:
        known = ids[piece]
        known = known[known != _UNKNOWN]
        is_end = known == END_OF_LINE
        follows_end = np.concatenate([[last == END_OF_LINE], is_end])[: len(known)]
        kept = known[~(is_end & follows_end)]
        if len(kept):
            last = kept[-1]
        out.write(kept.tobytes())
        yield int((kept == END_OF_LINE).sum())


def _check_enough(vocabulary: Vocabulary, files: Sequence[Path], counts: np.ndarray, config: WordsConfig) -> None:
    """Raises UserError if the text has fewer than two words to learn."""
    if len(vocabulary) >= 2:
        return
    name = str(files[0]) if len(files) == 1 else f'{files[0]} and {len(files) - 1} more'
    if not len(counts):
        raise UserError(f'{name}: no words; expected text, in which tokenizer.pattern={config.pattern!r} finds words')
    raise UserError(
        f'{name}: {len(counts):,} different words, {len(vocabulary)} of them at least tokenizer.min_count='
        f'{config.min_count} times; expected two or more: give more text, or a lower --tokenizer.min-count'
    )

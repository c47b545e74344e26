"""Text as a file of word ids: it is read once to count its words and once to write them, in bounded memory.

corpus.ids    int32, the words of each line in order, then END_OF_LINE; words outside of the vocabulary are left out
corpus.json   the text files and their checksums, and the digest of corpus.ids
"""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import (
    MOST_WORDS,
    naming_damage,
    read_limited,
    sha256_of,
    write_whole,
    written_whole,
)
from flax_transformer.common.json_text import read_json
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
        write_whole(file, self._text())

    @classmethod
    def load(cls, file: Path) -> 'Vocabulary':
        """Raises UserError if the file is missing or damaged."""
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
    """The text to train on and, if any, that for validation. Raises UserError for missing files."""
    root = data_root(data.root)
    train = Text(matching_files(data.train, root))
    if data.held_out:
        is_held_out = held_out_rows(data.train, data.held_out, keys_of(train.lines()))
        return {'train': train._replace(is_own=~is_held_out), 'validation': train._replace(is_own=is_held_out)}
    if data.validation:
        return {'train': train, 'validation': Text(matching_files(data.validation, root))}
    return {'train': train}


def lines_of_words(text: Text, config: WordsConfig) -> Iterator[list[str]]:
    return (words_of(line, config) for line in text.lines())


def lines_of_ids(text: Text, vocabulary: Vocabulary, config: WordsConfig) -> Iterator[list[int]]:
    """The ids of each line that has a known word, then END_OF_LINE, as corpus.ids has them."""
    known = vocabulary.ids
    for words in lines_of_words(text, config):
        ids = [known[word] for word in words if word in known]
        if ids:
            yield [*ids, END_OF_LINE]


def encode(text: Text, vocabulary: Vocabulary, config: WordsConfig) -> np.ndarray:
    """The ids of a text that fits in memory."""
    return np.fromiter(itertools.chain.from_iterable(lines_of_ids(text, vocabulary, config)), np.int32)


def prepare_corpus(
    text: Text, config: WordsConfig, folder: Path, *, vocab_size: int, known: Vocabulary | None = None
) -> tuple[Corpus, Vocabulary]:
    """Writes a text as ids into a folder; returns it and its vocabulary.

    `known` is the vocabulary to use; None: the text's own. Raises UserError if there are no two words to learn.
    """
    counts: Counter[str] = Counter()
    for words in lines_of_words(text, config):
        counts.update(words)
    vocabulary = known or Vocabulary.of(counts, min_count=config.min_count, size=vocab_size)
    _check_enough(vocabulary, text.files, counts, config)

    file = folder / IDS_FILE
    num_lines = 0
    with written_whole(file) as out:
        for ids in lines_of_ids(text, vocabulary, config):
            out.write(np.array(ids, np.int32).tobytes())
            num_lines += 1
    num_known = file.stat().st_size // 4 - num_lines
    corpus = Corpus(file, num_lines, counts.total(), num_known, sha256_of(file), listed(text.files))
    describe(corpus)
    return corpus, vocabulary


def describe(corpus: Corpus) -> None:
    description = {**asdict(corpus), 'file': IDS_FILE}
    write_whole(corpus.file.with_name(DESCRIPTION_FILE), json.dumps(description, indent=2) + '\n')


def is_as_noted(file: Path, noted: Any) -> bool:
    """Whether a file has the size and SHA-256 that were noted; size first, as a sparse file takes hours to hash."""
    has_size = isinstance(noted, list) and noted[:1] == [file.stat().st_size]
    return has_size and noted[1:] == [sha256_of(file)]


def load_corpus(folder: Path, files: Sequence[Path], vocab_size: int) -> Corpus | None:
    """The corpus that `prepare_corpus` wrote from these files; None if it is missing or damaged, or they changed."""
    try:
        description = read_json(folder / DESCRIPTION_FILE)
        corpus = Corpus(**{**description, 'file': folder / IDS_FILE})
        is_whole = is_as_noted(corpus.file, [4 * (corpus.num_known + corpus.num_lines), corpus.digest])
        is_whole = is_whole and corpus.ids.min() >= END_OF_LINE and corpus.ids.max() < vocab_size
        return corpus if is_whole and unchanged(corpus.sources, files) is not None else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def _check_enough(vocabulary: Vocabulary, files: Sequence[Path], counts: Counter[str], config: WordsConfig) -> None:
    if len(vocabulary) >= 2:
        return
    name = str(files[0]) if len(files) == 1 else f'{files[0]} and {len(files) - 1} more'
    if not counts:
        raise UserError(f'{name}: no words; expected text, in which tokenizer.pattern={config.pattern!r} finds words')
    raise UserError(
        f'{name}: {len(counts):,} different words, {len(vocabulary)} of them at least tokenizer.min_count='
        f'{config.min_count} times; expected two or more: give more text, or a lower --tokenizer.min-count'
    )

"""What a chunk of pairs shows, given what the first pairs of its corpus are like."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.data.bitext.corpus import Records
from flax_transformer.data.repeats import NO_KEY, hashes, keys_of
from flax_transformer.text.tokenizer import Tokenizer

from . import language
from .language import SideModel
from .lines import LINE_CHECKS, has_odd_space, numbers_differ, quoted_rows, rows_where

_LEARNED_FROM = 16_384  # pairs
_SMOOTHING = 10  # characters added to both lengths: short lines often have large ratios
_NOT_UTF8 = re.compile('[\udc80-\udcff]')  # bytes that surrogateescape has made characters
_DIGIT = re.compile(r'\d')
_CHECKS = {**LINE_CHECKS, 'odd_spaces': has_odd_space}


class Model(NamedTuple):
    """What pairs are compared with."""

    sides: tuple[SideModel, SideModel]
    languages: tuple[str, str] | None  # None: unknown to the library, or not those of the corpus
    usual_ratio: float  # target characters per source character
    max_ratio: float
    slots: tuple[int, int]  # tokens of each side that a row holds
    tokenizer: Tokenizer | None


class Facts(NamedTuple):
    """What a chunk shows, and what is kept of each pair, so that pairs can be compared."""

    rows: dict[str, dict[int, int]]  # the pairs that show a kind, each with the side that does
    keys: np.ndarray  # [3, pairs] uint64: of source and target, and of the exact bytes of both
    lengths: np.ndarray  # [2, pairs] uint16, in characters
    characters: Counter[str]


def learn(
    chunks: Sequence[Records],
    languages: tuple[str, str] | None,
    *,
    max_ratio: float,
    slots: tuple[int, int],
    tokenizer: Tokenizer | None,
) -> Model:
    """The Model of the first pairs of a corpus."""
    stride = max(1, sum(len(chunk.sources) for chunk in chunks) // _LEARNED_FROM)
    texts = []
    for side in (0, 1):
        chosen = [line for chunk in chunks for line in chunk[side]][::stride]
        decoded = [(line or b'').decode('utf-8', 'replace') for line in chosen]
        texts.append([line for line in decoded if line.strip()] or [''])
    lengths = [max(sum(map(len, lines)), 1) for lines in texts]
    if languages is not None and not all(map(language.is_known, languages)):
        languages = None
    sides = language.learn_side(texts[0]), language.learn_side(texts[1])
    return Model(sides, languages, lengths[1] / lengths[0], max_ratio, slots, tokenizer)


def shown(line: bytes | None) -> str:
    """A line for people to read, with escapes for what is not UTF-8."""
    return (line or b'').decode('utf-8', 'backslashreplace')


def inspect(records: Records, model: Model) -> Facts:
    """The facts of a chunk."""
    rows: dict[str, dict[int, int]] = {}

    def note(kind: str, chosen: Iterable[int], side: int = 0) -> None:
        for row in chosen:
            rows.setdefault(kind, {}).setdefault(int(row), side)

    texts = []
    for side, lines in enumerate(records):
        decoded = [(line or b'').decode('utf-8', 'surrogateescape') for line in lines]
        missing = [row for row, line in enumerate(lines) if line is None]
        invalid = [row for row, text in enumerate(decoded) if not text.isascii() and _NOT_UTF8.search(text)]
        note('missing_side', missing, side)
        note('invalid_utf8', invalid, side)
        for row in invalid:
            decoded[row] = ''
        for kind, check in _CHECKS.items():
            note(kind, set(rows_where(check, decoded)).difference(missing, invalid), side)
        note('too_long', _too_long(decoded, model.slots[side], model.tokenizer), side)
        texts.append(decoded)
    sources, targets = texts
    source_keys = keys_of(sources)
    target_keys = keys_of(targets)
    present = (source_keys != NO_KEY) & (target_keys != NO_KEY)
    is_copy = source_keys == target_keys
    note('quoted', quoted_rows(sources, targets))
    note('copy', (row for row in np.flatnonzero(present & is_copy) if any(map(str.isalpha, sources[row]))))
    both = zip(sources, targets, strict=True)
    note('numbers', [i for i, pair in enumerate(both) if present[i] and _has_digit(pair) and numbers_differ(*pair)])
    lengths = np.array([list(map(len, lines)) for lines in texts])
    ratio = np.log((lengths[1] + _SMOOTHING) / (model.usual_ratio * lengths[0] + _SMOOTHING))
    note('length_ratio', np.flatnonzero(present & (np.abs(ratio) > np.log(model.max_ratio))))

    is_like_other, is_unlike = zip(
        *(language.odd_lines(texts[side], model.sides[side], model.sides[1 - side]) for side in (0, 1)), strict=True
    )
    swapped = np.flatnonzero(present & ~is_copy & is_like_other[0] & is_like_other[1]).tolist()
    if model.languages is not None:  # the library decides
        swapped = [row for row in swapped if language.is_swapped(sources[row], targets[row], model.languages)]
        for side, lines in enumerate(texts):
            doubtful = np.flatnonzero((is_like_other[side] | is_unlike[side]) & present & ~is_copy)
            doubtful = sorted(set(doubtful.tolist()).difference(swapped))
            foreign = (row for row in doubtful if language.is_foreign(lines[row], model.languages[side]))
            note('wrong_language', foreign, side)
    note('swapped_pair', swapped)

    exact = hashes(b'%b\n%b' % pair if present[row] else b'' for row, pair in enumerate(zip(*records, strict=True)))
    characters = Counter(''.join(sources)) + Counter(''.join(targets))
    return Facts(
        {kind: dict(sorted(chosen.items())) for kind, chosen in rows.items()},
        np.stack([source_keys, target_keys, exact]),
        np.minimum(np.where(present, lengths, 0), 65_535).astype(np.uint16),
        characters,
    )


def _has_digit(pair: tuple[str, str]) -> bool:
    return _DIGIT.search(pair[0]) is not None or _DIGIT.search(pair[1]) is not None


def _too_long(lines: list[str], slots: int, tokenizer: Tokenizer | None) -> list[int]:
    """The rows with more tokens than slots, EOS included; without a tokenizer, with more words, a lower bound."""
    # A token has at least one byte, except the space that SentencePiece puts before a line.
    doubtful = [row for row, line in enumerate(lines) if 4 * len(line) + 2 > slots]
    if tokenizer is None:
        return [row for row in doubtful if len(lines[row].split()) + 1 > slots]
    lengths = map(len, tokenizer.encode([lines[row] for row in doubtful]))
    return [row for row, length in zip(doubtful, lengths, strict=True) if length > slots]

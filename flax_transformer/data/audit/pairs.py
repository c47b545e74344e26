"""What a chunk of pairs shows, given what the first pairs of its corpus are like."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
    rows: dict[str, dict[int, int]] = {}

    def note(kind: str, chosen: Iterable[int], side: int = 0) -> None:
        for row in chosen:
            rows.setdefault(kind, {}).setdefault(int(row), side)

    texts = []
    for side, lines in enumerate(records):
        texts.append(_note_lines(lines, side, model, note))
    sources, targets = texts
    note('quoted', quoted_rows(sources, targets))

    source_keys = keys_of(sources)
    target_keys = keys_of(targets)
    present = (source_keys != NO_KEY) & (target_keys != NO_KEY)
    is_copy = present & (source_keys == target_keys)
    note('copy', (row for row in np.flatnonzero(is_copy) if any(map(str.isalpha, sources[row]))))

    for row in np.flatnonzero(present):
        pair = sources[row], targets[row]
        if any(map(_DIGIT.search, pair)) and numbers_differ(*pair):
            note('numbers', [row])

    lengths = np.array([list(map(len, lines)) for lines in texts])
    ratio = np.log((lengths[1] + _SMOOTHING) / (model.usual_ratio * lengths[0] + _SMOOTHING))
    note('length_ratio', np.flatnonzero(present & (np.abs(ratio) > np.log(model.max_ratio))))

    _note_languages(texts, model, present & ~is_copy, note)
    exact = hashes(b'%b\n%b' % pair if present[row] else b'' for row, pair in enumerate(zip(*records, strict=True)))
    return Facts(
        {kind: dict(sorted(chosen.items())) for kind, chosen in rows.items()},
        np.stack([source_keys, target_keys, exact]),
        np.minimum(np.where(present, lengths, 0), 65_535).astype(np.uint16),
        Counter(''.join(sources)) + Counter(''.join(targets)),
    )


def _note_lines(lines: Sequence[bytes | None], side: int, model: Model, note: Callable[..., None]) -> list[str]:
    """Notes what the lines of a side show by themselves; returns their text, empty where it cannot be read."""
    texts = [(line or b'').decode('utf-8', 'surrogateescape') for line in lines]
    missing = [row for row, line in enumerate(lines) if line is None]
    invalid = [row for row, text in enumerate(texts) if not text.isascii() and _NOT_UTF8.search(text)]
    note('missing_side', missing, side)
    note('invalid_utf8', invalid, side)
    for row in invalid:
        texts[row] = ''
    for kind, check in _CHECKS.items():
        note(kind, set(rows_where(check, texts)).difference(missing, invalid), side)
    note('too_long', _too_long(texts, model.slots[side], model.tokenizer), side)
    return texts


def _note_languages(texts: list[list[str]], model: Model, comparable: np.ndarray, note: Callable[..., None]) -> None:
    """Notes pairs that are swapped, and those with a side in a language of neither; `comparable` is [pairs] bool."""
    sources, targets = texts
    first, second = model.sides
    source_like_target, odd_source = language.odd_lines(sources, first, second)
    target_like_source, odd_target = language.odd_lines(targets, second, first)
    swapped = np.flatnonzero(comparable & source_like_target & target_like_source).tolist()
    if model.languages is None:
        note('swapped_pair', swapped)
        return

    swapped = [row for row in swapped if language.is_swapped(sources[row], targets[row], model.languages)]
    note('swapped_pair', swapped)
    doubtful = (source_like_target | odd_source, target_like_source | odd_target)
    for side, lines in enumerate(texts):
        rows = np.setdiff1d(np.flatnonzero(doubtful[side] & comparable), swapped)
        note('wrong_language', (row for row in rows if language.is_foreign(lines[row], model.languages[side])), side)


def _too_long(lines: list[str], slots: int, tokenizer: Tokenizer | None) -> list[int]:
    """The rows with more tokens than slots, EOS included; without a tokenizer, with more words, a lower bound."""
    # A token has at least one byte, except the space that SentencePiece puts before a line.
    doubtful = [row for row, line in enumerate(lines) if 4 * len(line) + 2 > slots]
    if tokenizer is None:
        return [row for row in doubtful if len(lines[row].split()) + 1 > slots]
    lengths = map(len, tokenizer.encode([lines[row] for row in doubtful]))
    return [row for row, length in zip(doubtful, lengths, strict=True) if length > slots]

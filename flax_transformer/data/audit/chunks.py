"""Statistics of one chunk, given those of the first pairs."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flax_transformer.data.audit import characters, language
from flax_transformer.data.audit.alignment import length_byte
from flax_transformer.data.audit.characters import DIGIT, LAST, LETTER, Text, bits_of_characters, lay_out
from flax_transformer.data.audit.kinds import REJECTED
from flax_transformer.data.audit.language import SideModel
from flax_transformer.data.bitext.corpus import Records
from flax_transformer.data.repeats import NO_KEY, exact_keys, keys_of
from flax_transformer.text.tokenizer import Tokenizer

_SMOOTHING = 10  # characters added to both lengths: short lines often have large ratios

FORMS = ('composed', 'decomposed')
Note = Callable[..., None]  # kind, indices of lines, side: adds them to what was found
_NUMBER = re.compile(r"\d+(?:[.,'’:\u00a0\u202f ]\d{3}(?!\d)|[.,:]\d+)*")
_NOT_UTF8 = re.compile('[\udc80-\udcff]')  # bytes that surrogateescape has made characters
_SEPARATORS = re.compile(r'\D')
SPELLED = 12  # numbers up to this are often spelled out on one side only


class Model(NamedTuple):
    """What a chunk is compared with."""

    sides: tuple[SideModel, SideModel]
    languages: tuple[str | None, str | None]  # None: unknown to the library
    usual_ratio: float  # target characters per source character
    max_ratio: float
    slots: tuple[int, int]  # tokens of each side that a row holds
    tokenizer: Tokenizer | None


class PairFacts(NamedTuple):
    """What is kept of each pair, so that pairs can be compared: 25 bytes."""

    keys: np.ndarray  # [2, pairs] uint64
    exact: np.ndarray  # [pairs] uint32
    lengths: np.ndarray  # [2, pairs] uint8
    ends: np.ndarray  # [2, pairs] uint8: codes of the last marks
    reasons: np.ndarray  # [pairs] uint8, for clean: the first kind that rejects a pair, from 1; 0: none


class Facts(NamedTuple):
    """What one chunk shows."""

    pairs: PairFacts
    found: dict[str, dict[int, int]]  # the pairs that show a kind, as indices in the chunk, each with the side
    characters: Counter[str]


def learn(records: Sequence[Records], languages: tuple[str | None, str | None], **settings: object) -> Model:
    """The Model learned from the first pairs of a corpus, some 16,000 of them, evenly spaced.

    `settings` are the fields that do not depend on the pairs.
    """
    count = sum(len(chunk.sources) for chunk in records)
    stride = max(1, count // 16_384)
    sides = []
    for side in (0, 1):
        chosen = [line for chunk in records for line in chunk[side]][::stride]
        lines = [(line or b'').decode('utf-8', 'replace') for line in chosen]
        sides.append(lay_out([line for line in lines if line.strip()] or ['']))
    lengths = [text.starts[-1] - len(text.lines) for text in sides]
    return Model(
        sides=tuple(map(language.learn_side, sides)),
        languages=tuple(code if code and language.is_known(code) else None for code in languages),
        usual_ratio=float(max(lengths[1], 1) / max(lengths[0], 1)),
        **settings,
    )


def inspect(records: Records, model: Model) -> Facts:
    """The facts of a chunk."""
    found: dict[str, dict[int, int]] = {}

    def note(kind: str, lines: np.ndarray | list[int], side: int = 0) -> None:
        for line in np.asarray(lines).tolist():
            found.setdefault(kind, {}).setdefault(line, side)

    texts = []
    for side, lines in enumerate(records):
        note('missing_side', [i for i, line in enumerate(lines) if line is None], side)
        decoded = [(line or b'').decode('utf-8', 'surrogateescape') for line in lines]
        invalid = [i for i, line in enumerate(decoded) if not line.isascii() and _NOT_UTF8.search(line)]
        note('invalid_utf8', invalid, side)
        note('blank', [i for i, line in enumerate(decoded) if lines[i] is not None and not line.strip()], side)
        for i in invalid:
            decoded[i] = ''  # not counted as anything else
        texts.append(lay_out(decoded))
    bits = [bits_of_characters()[text.codes] for text in texts]
    line_bits = [text.any(flags) for text, flags in zip(texts, bits, strict=True)]
    keys = np.stack([keys_of(text.lines) for text in texts])
    present = (keys != NO_KEY).all(axis=0)
    for side, text in enumerate(texts):
        note('control', characters.lines_with_controls(text, bits[side]), side)
        note('entity', characters.lines_with_entities(text), side)
        note('mojibake', characters.lines_with_mojibake(text), side)
        note('odd_spaces', characters.lines_with_odd_spaces(text, bits[side]), side)
        for form, lines in zip(FORMS, characters.composed_and_decomposed(text, bits[side]), strict=True):
            note(f'{form}:{side}', lines, side)
        note('too_long', _too_long(text, model.slots[side], model.tokenizer), side)
    note('quoted', characters.quoted_rows(*(text.lines for text in texts)))
    has_letter = (line_bits[0] & LETTER) != 0
    note('copy', np.flatnonzero(present & (keys[0] == keys[1]) & has_letter))
    lengths = np.stack([np.diff(text.starts) - 1 for text in texts])
    ratio = np.log((lengths[1] + _SMOOTHING) / (model.usual_ratio * lengths[0] + _SMOOTHING))
    note('length_ratio', np.flatnonzero(present & (np.abs(ratio) > np.log(model.max_ratio))))
    _note_languages(texts, model, present & (keys[0] != keys[1]), note)

    with_digits = np.flatnonzero(present & ((line_bits[0] | line_bits[1]) & DIGIT != 0))
    note('numbers', [i for i in with_digits if numbers_differ(*(numbers_of(text.lines[i]) for text in texts))])
    raw = ([line or b'' for line in side] for side in records)
    lengths = np.where(lengths > 0, length_byte(lengths), 0).astype(np.uint8)
    reasons = np.zeros(len(present), np.uint8)
    for number, kind in reversed([*enumerate(REJECTED, start=1)]):
        reasons[list(found.get(kind, ()))] = number
    pairs = PairFacts(keys, exact_keys(*raw), lengths, np.stack([_ends(text) for text in texts]), reasons)
    return Facts(pairs, found, _characters(texts))


def shown(line: bytes | None) -> str:
    """A line for people to read, with escapes for what is not UTF-8."""
    return (line or b'').decode('utf-8', 'backslashreplace')


def _too_long(text: Text, slots: int, tokenizer: Tokenizer | None) -> np.ndarray:
    """The lines with more tokens than slots, EOS included; without a tokenizer, with more words, a lower bound."""
    if tokenizer is not None:
        # Only these can be: a token has at least one byte, except the space that SentencePiece puts before a line.
        doubtful = [i for i, line in enumerate(text.lines) if len(line.encode('utf-8', 'replace')) + 2 > slots]
        counts = [len(ids) for ids in tokenizer.encode([text.lines[i] for i in doubtful])] if doubtful else []
        return np.array([i for i, count in zip(doubtful, counts, strict=True) if count > slots], np.int64)
    space = (text.codes == 0x20) | (text.codes == 0x0A)
    begins = ~space & np.concatenate([[True], space[:-1]])
    return np.flatnonzero(text.count(begins) + 1 > slots)


def _note_languages(texts: list[Text], model: Model, comparable: np.ndarray, note: Note) -> None:
    like_other, unlikely = zip(
        *(language.odd_lines(texts[side], model.sides[side], model.sides[1 - side]) for side in (0, 1)), strict=True
    )
    swapped = comparable & like_other[0] & like_other[1]
    source_language, target_language = model.languages
    if source_language and target_language:
        # If the library knows both languages it decides: a name or a quotation is not a swap.
        for i in np.flatnonzero(swapped):
            first, second = (language.identify(text.lines[i])[0] for text in texts)
            exchanged = [language.is_language(first, target_language), language.is_language(second, source_language)]
            in_place = [language.is_language(first, source_language), language.is_language(second, target_language)]
            swapped[i] = any(exchanged) and not any(in_place)
    note('swapped_pair', np.flatnonzero(swapped))
    for side, text in enumerate(texts):
        code = model.languages[side]
        foreign = set(language.foreign_script(text, model.sides[side]).tolist())
        if code:
            doubtful = np.flatnonzero((like_other[side] | unlikely[side]) & comparable & ~swapped)
            foreign |= {int(i) for i in doubtful if language.is_foreign(text.lines[i], code)}
        note('wrong_language', sorted(foreign), side)


def _ends(text: Text) -> np.ndarray:
    """[lines] uint8: a code of the last character of each line: 1 full stop, 2 question mark, 3 exclamation mark."""
    last = text.codes[np.maximum(text.starts[1:] - 2, 0)]
    return sum((last == ord(sign)).astype(np.uint8) * np.uint8(code) for code, sign in enumerate('.?!', start=1))


def _characters(texts: list[Text]) -> Counter[str]:
    """How often each character occurs."""
    counts = sum(np.bincount(text.codes, minlength=LAST + 1) for text in texts)
    counts[[0x0A, LAST]] = 0
    tally = Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts)})
    for text in texts:
        for line in text.lines_at(np.flatnonzero(text.codes == LAST)):
            tally.update(character for character in text.lines[line] if ord(character) >= LAST)
    return tally


def numbers_of(line: str) -> Counter[str]:
    """The numbers of a line without their separators and leading zeros: 1,234.50 and 1.234,50 are the same."""
    return Counter(str(int(_SEPARATORS.sub('', number)[:1000])) for number in _NUMBER.findall(line))


def numbers_differ(source: Counter[str], target: Counter[str]) -> bool:
    """Whether one side has a number that the other lacks and is unlikely to spell out.

    Grouping does not matter: 10 000 is 10000. If one side has no digits at all, only numbers like 1987 count.
    """
    if source == target:
        return False
    alone = [*(source - target), *(target - source)]
    if not source or not target:
        return any(len(number) > 2 and number[-1] != '0' for number in alone)
    digits = [''.join(sorted(numbers.elements())) for numbers in (source, target)]
    return digits[0] != digits[1] and any(len(number) > 2 or int(number) > SPELLED for number in alone)

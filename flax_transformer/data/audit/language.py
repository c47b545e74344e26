"""The language of a line: by what the corpus itself shows, and in doubt by a library.

Character trigrams of the first pairs show what each side looks like. That is fast, and finds swapped pairs and lines
unlike the rest of their side. py3langid (140 languages) then decides whether those are foreign.
"""

import copy
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.text.languages import two_letters
from flax_transformer.text.tokenizer import count_unspaced

SLOTS = 1 << 17  # size of the table into which trigrams are hashed
MARGIN = 12.0  # nats by which the other side's model must be likelier, and at least 0.3 a character
UNLIKELY = 3.0  # robust standard deviations of a line's mean log-probability below the median
FEWEST_LETTERS = 20  # the library is unreliable on shorter lines
FEWEST_UNSPACED = 9  # the same in scripts without spaces
CERTAIN = 0.7  # the library's confidence
ASKED = 200  # most lines given to the library for a side
ALIKE = (
    {'no', 'nb', 'nn', 'da'},
    {'hr', 'sr', 'bs', 'sh'},
    {'id', 'ms'},
    {'cs', 'sk'},
    {'gl', 'pt'},
    {'zh', 'wuu', 'yue'},
)


class SideModel(NamedTuple):
    log_probs: np.ndarray  # [SLOTS] float32, nats
    least: float = -math.inf  # a line with a lower mean log-probability is unlike its side


def trigrams(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The slot of the trigram that begins at each character, and the length of each line with its line feed.

    Slots are [characters] int32, of one line after the other; 0 where a trigram would leave its line.
    """
    lowered = [line.lower() for line in lines]
    lengths = np.array([len(line) + 1 for line in lowered])
    text = ''.join(f'{line}\n' for line in lowered) + '\n\n'
    codes = np.frombuffer(text.encode('utf-32-le', 'surrogatepass'), np.uint32).copy()
    codes[(codes > ord('0')) & (codes <= ord('9'))] = ord('0')
    mixed = codes[:-2] * np.uint32(0x9E3779B1) ^ codes[1:-1] * np.uint32(0x85EBCA6B) ^ codes[2:] * np.uint32(0xC2B2AE35)
    slots = ((mixed * np.uint32(0x27D4EB2F)) >> np.uint32(32 - 17)).astype(np.int32)
    ends = np.cumsum(lengths) - 1
    slots = np.maximum(slots, 1)
    slots[ends] = 0
    slots[np.maximum(ends - 1, 0)] = 0
    return slots, lengths


def _likelihoods(slots: np.ndarray, lengths: np.ndarray, model: SideModel) -> np.ndarray:
    """[lines]: the log-probability of each line, in nats."""
    starts = np.cumsum(lengths) - lengths
    return np.add.reduceat(model.log_probs[slots], starts)


def learn_side(lines: Sequence[str]) -> SideModel:
    slots, lengths = trigrams(lines)
    counts = np.bincount(slots, minlength=SLOTS)
    counts[0] = 0
    log_probs = np.log((counts + 0.1) / (counts.sum() + 0.1 * SLOTS)).astype(np.float32)
    log_probs[0] = 0
    model = SideModel(log_probs)
    is_long = lengths > FEWEST_LETTERS
    if not is_long.any():
        return model
    means = (_likelihoods(slots, lengths, model) / np.maximum(lengths - 3, 1))[is_long]
    median = float(np.median(means))
    deviation = 1.4826 * float(np.median(np.abs(means - median)))
    return model._replace(least=median - UNLIKELY * max(deviation, 0.05))


def odd_lines(lines: Sequence[str], own: SideModel, other: SideModel) -> tuple[np.ndarray, np.ndarray]:
    """[lines] bool: those that look like the other side, and those that look unlike their own."""
    slots, lengths = trigrams(lines)
    at_home = _likelihoods(slots, lengths, own)
    gain = _likelihoods(slots, lengths, other) - at_home
    count = np.maximum(lengths - 3, 1)
    is_unlike = (at_home / count < own.least) & (count >= FEWEST_LETTERS)
    return (gain > MARGIN) & (gain > 0.3 * count), is_unlike


@functools.cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def identifier_of(languages: Sequence[str] = ()) -> Any:
    """py3langid's identifier, limited to those of `languages` that it knows, if it knows any."""
    identifier = copy.copy(_identifier())  # reading one takes 0.2 s
    known = sorted({two_letters(language) for language in languages} & set(identifier.labels))
    if known:
        identifier.set_languages(known)
    return identifier


def is_known(language: str) -> bool:
    return len(language) < 12 and two_letters(language) in _identifier().labels


def identify(line: str) -> tuple[str, float]:
    return _identifier().classify(line)


def is_language(identified: str, expected: str) -> bool:
    """Whether a language may be the expected one; languages that are hard to tell apart count as one."""
    expected = two_letters(expected)
    return identified == expected or any(identified in group and expected in group for group in ALIKE)


def certain_language(line: str) -> tuple[str, float] | None:
    """The language of a line and the confidence; None if it is short, or not certain."""
    is_long = sum(map(str.isalpha, line)) >= FEWEST_LETTERS and len(line.split()) >= 3
    if not is_long and count_unspaced(line) < FEWEST_UNSPACED:
        return None
    language, confidence = identify(line)
    return (language, confidence) if confidence > CERTAIN and language != 'zxx' else None  # zxx: in none


def is_foreign(line: str, expected: str) -> bool:
    certain = certain_language(line)
    return certain is not None and not is_language(certain[0], expected)


def is_swapped(source: str, target: str, languages: tuple[str, str]) -> bool:
    """Whether a side is in the language of the other, and none in its own: a name or a quotation is not a swap."""
    first = identify(source)[0]
    second = identify(target)[0]
    if is_language(first, languages[0]) or is_language(second, languages[1]):
        return False
    return is_language(first, languages[1]) or is_language(second, languages[0])


def language_of_side(lines: list[str]) -> tuple[str, float] | None:
    """The most frequent language among some lines of at least four words, and its share; None: too few lines."""
    long_enough = [line for line in lines if len(line) >= FEWEST_LETTERS and line.count(' ') >= 3]
    if len(long_enough) < 10:
        return None
    chosen = long_enough[:: max(1, len(long_enough) // ASKED)][:ASKED]
    languages = [identify(line)[0] for line in chosen]
    best = max(sorted(set(languages)), key=languages.count)
    return best, languages.count(best) / len(languages)

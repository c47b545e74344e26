"""The language of a line: by what the corpus itself shows, and in doubt by a library.

Character trigrams of the first pairs show what each side looks like. That is fast, needs no list of languages, and
finds swapped pairs and lines that look unlike the rest of their side. py3langid (BSD license, 4.5 MB, 140 languages,
loaded on demand) then decides whether those are foreign.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.data.audit import characters
from flax_transformer.data.audit.characters import LAST, LETTER, SCRIPTS, Text, scripts_of_characters
from flax_transformer.text.languages import two_letters

SLOTS = 1 << 17  # size of the table into which trigrams are hashed
MARGIN = 12.0  # nats by which the other side's model must be likelier
# Robust standard deviations of a line's mean log-probability below the median at which the library is asked.
UNLIKELY = 3.0
FEWEST_LETTERS = 20  # the library is unreliable on shorter lines
CERTAIN = 0.7  # the library's confidence
ASKED = 200  # most lines given to the library for a side
ALIKE = ({'no', 'nb', 'nn', 'da'}, {'hr', 'sr', 'bs', 'sh'}, {'id', 'ms'}, {'cs', 'sk'}, {'gl', 'pt'})


class SideModel(NamedTuple):
    """What one side of a corpus looks like."""

    log_probs: np.ndarray  # [SLOTS] float32, nats
    median: float  # the median of the lines' mean log-probabilities
    threshold: float  # nats below the median at which a line is unlike its side
    scripts: np.ndarray  # [scripts + 1] bool: those in use on this side


@functools.cache
def _lower() -> np.ndarray:
    """[LAST + 1] int32: the lower case of each character; all digits are one, all spaces are one."""
    lower = np.arange(LAST + 1, dtype=np.int32)
    for code in range(LAST):
        small = chr(code).lower()
        lower[code] = ord(small) if len(small) == 1 else code
    lower[ord('0') : ord('9') + 1] = ord('0')
    lower[[0x09, 0x0A, 0xA0, 0x202F]] = 0x20
    return lower


def trigrams(text: Text) -> np.ndarray:
    """[characters] int32: the slot of the trigram that begins at each character; 0 if it would leave its line."""
    codes = _lower()[text.codes].astype(np.uint32)
    codes = np.concatenate([codes, np.zeros(2, np.uint32)])
    mixed = codes[:-2] * np.uint32(0x9E3779B1) ^ codes[1:-1] * np.uint32(0x85EBCA6B) ^ codes[2:] * np.uint32(0xC2B2AE35)
    slots = ((mixed * np.uint32(0x27D4EB2F)) >> np.uint32(32 - 17)).astype(np.int32)
    slots = np.maximum(slots, 1)
    slots[text.starts[1:] - 1] = 0
    slots[np.maximum(text.starts[1:] - 2, 0)] = 0
    return slots


def learn_side(text: Text) -> SideModel:
    """The model of a side, learned from some of its lines."""
    counts = np.bincount(trigrams(text), minlength=SLOTS)
    letters = np.bincount(scripts_of_characters()[text.codes], minlength=len(SCRIPTS) + 1)
    counts[0] = 0
    log_probs = np.log((counts + 0.1) / (counts.sum() + 0.1 * SLOTS)).astype(np.float32)
    log_probs[0] = 0
    letters[0] = 0
    scripts = letters >= 0.1 * letters.sum()
    scripts[0] = True
    model = SideModel(log_probs, 0.0, math.inf, scripts)
    sums, lengths = _likelihoods(text, model)
    means = (sums / lengths)[lengths >= FEWEST_LETTERS]
    if not len(means):
        return model
    median = float(np.median(means))
    deviation = 1.4826 * float(np.median(np.abs(means - median)))
    return model._replace(median=median, threshold=UNLIKELY * max(deviation, 0.05))


def _likelihoods(text: Text, *models: SideModel) -> tuple[np.ndarray, ...]:
    """[lines] log-probability under each model, and number (at least 1) of each line's trigrams."""
    slots = trigrams(text)
    return *(text.count(model.log_probs[slots]) for model in models), np.maximum(np.diff(text.starts) - 2, 1)


def odd_lines(text: Text, own: SideModel, other: SideModel) -> tuple[np.ndarray, np.ndarray]:
    """[lines] bool: those that look like the other side, and those that look unlike their own."""
    at_home, abroad, length = _likelihoods(text, own, other)
    looks_like_other = (abroad - at_home > MARGIN) & (abroad - at_home > 0.3 * length)
    unlikely = (at_home / length < own.median - own.threshold) & (length >= FEWEST_LETTERS)
    return looks_like_other, unlikely


def foreign_script(text: Text, own: SideModel) -> np.ndarray:
    """The lines with most letters, and at least three, in a script that this side does not use."""
    scripts = scripts_of_characters()[text.codes]
    abroad = ~own.scripts[scripts]
    if not abroad.any():
        return np.zeros(0, np.int64)
    letters = text.count((characters.bits_of_characters()[text.codes] & LETTER) != 0)
    foreign = text.count(abroad)
    return np.flatnonzero((foreign >= 3) & (2 * foreign > letters))


@functools.cache
def _identifier() -> Any:
    return identifier_of(())


def identifier_of(languages: Sequence[str]) -> Any:
    """py3langid's identifier, limited to those of `languages` that it knows, if it knows any."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if known := sorted({two_letters(each) for each in languages} & set(identifier.labels)):
        identifier.set_languages(known)
    return identifier


def is_known(language: str) -> bool:
    """Whether the library knows the language."""
    return len(language) < 12 and two_letters(language) in _identifier().labels


def identify(line: str) -> tuple[str, float]:
    """The language of a line, and the confidence, 0 to 1."""
    return _identifier().classify(line)


def is_language(found: str, expected: str) -> bool:
    """Whether the language found may be the expected one; languages that are hard to tell apart count as one."""
    expected = two_letters(expected)
    return found == expected or any(found in group and expected in group for group in ALIKE)


def is_foreign(line: str, expected: str) -> bool:
    """Whether a line is certainly not in the expected language."""
    if sum(map(str.isalpha, line)) < FEWEST_LETTERS or len(line.split()) < 3:
        return False
    found, confidence = identify(line)
    return confidence > CERTAIN and not is_language(found, expected)


def language_of_side(lines: list[str]) -> tuple[str, float] | None:
    """The most frequent language among some lines of at least four words, and its share; None: too few lines."""
    long_enough = [line for line in lines if len(line) >= FEWEST_LETTERS and line.count(' ') >= 3]
    if len(long_enough) < 10:
        return None
    chosen = long_enough[:: max(1, len(long_enough) // ASKED)][:ASKED]
    found = [identify(line)[0] for line in chosen]
    best = max(sorted(set(found)), key=found.count)
    return best, found.count(best) / len(found)

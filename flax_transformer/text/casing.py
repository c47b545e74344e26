"""Lines in capitals, and English ones in Title Case, written as the sentences from which a model has learned.

Which words keep a capital, the vocabulary tells: a word that it spells with fewer pieces so, or with a more frequent
one, is a name, or a German noun (truecasing, after Koehn et al. 2008, W08-0318, with pieces in place of counts).
"""

import re
from collections.abc import Iterable, Sequence

from .tokenizer import Tokenizer

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SMALL = re.compile(  # what headlines leave small
    'an?|and|as|at|but|by|for|from|if|in|into|nor|off?|on|onto|or|over|per|so|than|the|to|up|upon|via|vs|with'
)


def sentence_of_capitals(text: str, tokenizer: Tokenizer) -> str:
    """A text in capitals with those of a sentence; as long as it was."""
    words = list(_WORD.finditer(text))
    forms = [(_capitalized(word[0]), _lower(word[0])) for word in words]
    letters = [*_lower(text)]
    for word, (capitalized, _), preference in zip(words, forms, _preferences(forms, tokenizer), strict=True):
        is_name = len(word[0]) > 1 and preference < 0
        if is_name or word[0] == 'I' or _begins_sentence(word):
            letters[word.start() : word.end()] = capitalized
    return ''.join(letters)


def sentence_of_title(text: str, kept: Sequence[tuple[int, int]], tokenizer: Tokenizer) -> str:
    """An English text in Title Case with the capitals of a sentence, but for what is kept; any other as it is."""
    taken = {place for start, end in kept for place in range(start, end)}
    words = [word for word in _WORD.finditer(text) if taken.isdisjoint(range(*word.span()))]
    if len(words) < 2 or any(word[0].islower() and not _SMALL.fullmatch(word[0]) for word in words):
        return text

    titled = [word for word in words if word[0] == _capitalized(word[0]) and (word[0][1:] or word[0] == 'A')]
    preferences = _preferences([(word[0], _lower(word[0])) for word in titled], tokenizer)
    begins_with_name = bool(titled) and titled[0] is words[0] and preferences[0] < 0
    if begins_with_name and len(words) < 4 and not text.rstrip().endswith(('.', '!', '?')):  # Tom Brown, Tom and Rose
        return text

    inner = [pair for pair in zip(titled, preferences, strict=True) if not _begins_sentence(pair[0])]
    if not any(preference > 0 for _, preference in inner):  # names, as far as the vocabulary tells
        return text

    lowered = [word for word, preference in inner if preference >= 0]
    if lowered[-1] is words[-1] and lowered[-1][0] == 'A':  # Vitamin A
        lowered.pop()
    letters = [*text]
    for word in lowered:
        letters[word.start()] = word[0][0].lower()
    return ''.join(letters)


def _begins_sentence(word: re.Match[str]) -> bool:
    before = word.string[max(word.start() - 6, 0) : word.start()]
    return re.search(r'(?:^|[.!?:…])\W*$', before) is not None


def _preferences(forms: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> list[int]:
    """For each pair of spellings, whether the vocabulary prefers the second (above 0) or the first (below)."""
    empty, *encoded = tokenizer.encode(['', *(form for pair in forms for form in pair)])

    def preference(first: list[int], second: list[int]) -> int:
        if len(first) == len(second) == len(empty) + 1:
            return (first > second) - (first < second)  # the more frequent a piece, the smaller its number
        return len(first) - len(second)

    return list(map(preference, encoded[::2], encoded[1::2]))


def _lower(text: str) -> str:
    """The text in small letters where those are as many: İ has two."""
    return ''.join(low if len(low := character.lower()) == 1 else character for character in text)


def _capitalized(word: str) -> str:
    return word[0].upper() + _lower(word[1:])

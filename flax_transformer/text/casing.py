"""Lines in capitals, and English ones in Title Case, written as the sentences from which a model has learned.

Which words keep a capital, the vocabulary tells: a word that it spells with fewer pieces so, or with a more frequent
one, is a name, or a German noun (truecasing, after Koehn et al. 2008, W08-0318, with pieces in place of counts).
"""

import re
from collections.abc import Iterable, Sequence

from .tokenizer import Tokenizer

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# What headlines leave small; then, what names of persons, companies and streets hardly have.
_SMALL = re.compile(
    'an?|and|as|at|but|by|for|from|if|in|into|nor|off?|on|onto|or|over|per|so|than|the|to|up|upon|via|vs|with'
)
_NEVER_IN_NAMES = re.compile(
    "(?!(?:and|of|the|for)$)(?:(?i:all|any|are|be|can|did|don't|do|does|had|has|have|her|here|his|how|is|its?|less|me|"
    'more|most|my|no|not|now|our|out|please|she|some|that|their|them|there|these|they|this|those|too|us|was|we|were|what|when|'
    f'who|why|will|you|your|{_SMALL.pattern}))|And|Of|The|For'
)
_GREETING = re.compile('hi|hello|hey|dear|thanks?|welcome|regards|yours|best|kind|love|greetings', re.I)


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
    inner = [
        (word, preference)
        for word, preference in zip(titled, preferences, strict=True)
        if not _begins_sentence(word) and not text.startswith('. ', word.end())  # Dr. Brown
    ]
    if not any(preference > 0 for _, preference in inner):  # names, as far as the vocabulary tells
        return text
    if len(words) < 4 and _GREETING.fullmatch(words[0][0]):
        return text
    telling = words[_SMALL.fullmatch(words[0][0].lower()) is not None :]  # "The White House" may be a name
    is_sentence = text.rstrip().endswith(('.', '!', '?'))
    if not is_sentence and not any(_NEVER_IN_NAMES.fullmatch(word[0]) for word in telling):
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

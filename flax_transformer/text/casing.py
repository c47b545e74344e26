"""Lines in capitals, and English ones in Title Case, written as the sentences from which a model has learned.

Which words keep a capital, the vocabulary tells: a word that it spells with fewer pieces so, or with a more frequent
one, is a name, or a German noun (truecasing, after Koehn et al. 2008, W08-0318, with pieces in place of counts).
"""

import re
from collections.abc import Iterable, Sequence

from .tokenizer import Tokenizer

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# What headlines leave small.
_SMALL = re.compile(
    'an?|and|as|at|but|by|for|from|if|in|into|nor|off?|on|onto|or|over|per|so|than|the|to|up|upon|via|vs|with'
)
# Capitalized within a line, these are of a headline, not of a name.
_TELLING = re.compile(
    'about|after|all|also|always|any|are|around|be|because|been|before|between|can|could|did|do|does|during|every|get|go|'
    'had|has|have|her|here|his|how|is|its?|just|less|many|me|more|most|much|must|my|never|no|not|now|only|our|out|'
    'should|some|that|their|them|then|there|these|they|this|through|too|under|until|us|very|was|we|were|what|when|where|'
    'which|who|why|without|would|you|your|'
    f'{_SMALL.pattern}',
    re.I,
)
_MANY = 3  # words that the vocabulary prefers in small letters tell as much
# Before and after another name, these are of a name, too.
_BEFORE_NAME = re.compile('New|Los|San|North|South|East|West|Great|Saint|Lake|Mount|Prime')
_TITLE = re.compile('Mrs?|Ms|Dr|Prof|Sir|St')
_AFTER_NAME = re.compile(
    'Street|Road|Avenue|Lane|Square|Park|Lake|River|Bridge|Station|Airport|University|Bank|Minister'
)
_LETTERED = re.compile('Plan|Vitamin|Type|Class|Group|Grade|Option|Hepatitis')


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
    """An English text in Title Case with the capitals of a sentence, but for what is kept; any other as it is.

    A word of which the vocabulary does not say that it is no name keeps its capital: a model copies it.
    """
    taken = {place for start, end in kept for place in range(start, end)}
    words = [word for word in _WORD.finditer(text) if taken.isdisjoint(range(*word.span()))]
    if len(words) < 2 or any(word[0].islower() and not _SMALL.fullmatch(word[0]) for word in words):
        return text

    forms = [(word[0], _lower(word[0])) for word in words]
    preferences = _preferences(forms, tokenizer)
    is_name = [preference <= 0 for preference in preferences]
    lowered = []
    for i, word in enumerate(words):
        before = words[i - 1][0] if i else ''
        is_titled = word[0] == _capitalized(word[0]) and not _begins_sentence(word) and text[word.start() - 1] != '-'
        if word[0] == 'A':
            is_kept = i == len(words) - 1 or _LETTERED.fullmatch(before)
        elif _TITLE.fullmatch(word[0]) or _TITLE.fullmatch(before):
            is_kept = True
        elif _TELLING.fullmatch(word[0]):
            is_kept = False
        else:
            leads = i + 1 < len(words) and is_name[i + 1] and _BEFORE_NAME.fullmatch(word[0])
            follows = i > 0 and is_name[i - 1] and _AFTER_NAME.fullmatch(word[0])
            is_kept = is_name[i] or leads or follows
        if is_titled and not is_kept and (len(word[0]) > 1 or word[0] == 'A'):
            lowered.append(word)
    if len(lowered) < _MANY and not any(_TELLING.fullmatch(word[0]) for word in lowered):
        return text

    letters = [*text]
    for word in lowered:
        letters[word.start()] = _lower(word[0][0])
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
    first = word[0].upper()
    return (first if len(first) == 1 else word[0]) + _lower(word[1:])

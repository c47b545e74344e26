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
# Words that are names, too: months and products; surnames after another name; what begins or ends a name of a place.
_ALSO_NAMES = re.compile('Apple|Bill|Bush|Excel|March|Mark|May|Office|Times|Windows|Word')
_SURNAMES = re.compile(
    'Baker|Banks|Bell|Black|Brown|Cook|Day|Field|Fox|Gray|Green|Grey|Hill|Hunter|King|Knight|Long|Moon|Page|Price|Rice|'
    'Rich|Rose|Short|Small|Snow|Stone|White|Winter|Wolf|Woods?|Young'
)
_BEFORE_NAME = re.compile('New|Los|San|North|South|East|West|Great|Saint|Lake|Mount|Prime')
_AFTER_NAME = re.compile(
    'Street|Road|Avenue|Lane|Square|Park|Lake|River|Bridge|Station|Airport|University|Bank|Minister'
)
_TITLE = re.compile('Mrs?|Ms|Dr|Prof|Sir|St')
_COMPANY = re.compile(r'\b(?:Inc|Ltd|Corp|LLC|LLP|PLC|GmbH|AG)\b')
# Before the letter A, which is no article then.
_LETTERED = re.compile(
    'Annex|Appendix|Article|Building|Class|Exhibit|Gate|Grade|Group|Hepatitis|Option|Part|Plan|Point|Room|Schedule|'
    'Section|Size|Team|Type|Vitamin'
)
_NO_NOUN = re.compile('[A-Z]|and|or|to|vs|[Ii]s', re.I)


def sentence_of_capitals(text: str, tokenizer: Tokenizer) -> str:
    """A text in capitals with those of a sentence; as long as it was."""
    words = list(_WORD.finditer(text))
    forms = [(_capitalized(word[0]), _lower(word[0])) for word in words]
    letters = [*_lower(text)]
    preferences = _preferences(forms, tokenizer)
    for i, word in enumerate(words):
        is_name = len(word[0]) > 1 and preferences[i] < 0
        if is_name or word[0] == 'I' or _begins_sentence(words, i):
            letters[word.start() : word.end()] = forms[i][0]
    return ''.join(letters)


def places_of_sharp_s(text: str, tokenizer: Tokenizer) -> list[int]:
    """Where SS in a German text in capitals is ß, as far as the vocabulary tells: of each, the place of the first S."""
    places = []
    forms = []
    for word in _WORD.finditer(text):
        for found in re.finditer('SS', word[0]):
            places.append(word.start() + found.start())
            for spelled in (word[0][: found.start()] + 'ß' + word[0][found.end() :], word[0]):
                forms += [_lower(spelled), _capitalized(spelled)]
    encoded = [(len(ids), ids) for ids in tokenizer.encode(forms)]
    return [place for i, place in enumerate(places) if min(encoded[4 * i :][:2]) < min(encoded[4 * i + 2 :][:2])]


def sentence_of_title(text: str, kept: Sequence[tuple[int, int]], tokenizer: Tokenizer) -> str:
    """An English text in Title Case with the capitals of a sentence, but for what is kept; any other as it is.

    A word that may be a name, as far as the vocabulary tells, keeps its capital: a model copies it.
    """
    taken = {place for start, end in kept for place in range(start, end)}
    seen = ''.join(' ' if place in taken else character for place, character in enumerate(text))
    words = list(_WORD.finditer(seen))
    if len(words) < 2 or any(word[0].islower() and not _SMALL.fullmatch(word[0]) for word in words):
        return text
    if _COMPANY.search(seen):
        return text

    preferences = _preferences([(word[0], _lower(word[0])) for word in words], tokenizer)
    lowered = []
    for i, word in enumerate(words):
        is_titled = word[0] == _capitalized(word[0]) and seen[word.start() - 1] != '-'
        if is_titled and not _begins_sentence(words, i) and not _keeps_capital(words, i, preferences):
            lowered.append(word)
    if not any(word[0][1:] and _TELLING.fullmatch(word[0]) for word in lowered):
        return text

    letters = [*text]
    for word in lowered:
        letters[word.start()] = _lower(word[0][0])
    return ''.join(letters)


def _keeps_capital(words: Sequence[re.Match[str]], number: int, preferences: Sequence[int]) -> bool:
    own = words[number][0]
    before = words[number - 1][0] if number else ''
    after = words[number + 1][0] if number + 1 < len(words) else ''
    if own == 'A':
        return not after or any((_NO_NOUN.fullmatch(after), _LETTERED.fullmatch(before)))
    if len(own) == 1:
        return True
    if _TELLING.fullmatch(own):
        return False

    is_after_name = bool(before) and preferences[number - 1] <= 0
    is_before_name = bool(after) and preferences[number + 1] <= 0
    return (
        preferences[number] <= 0
        or _ALSO_NAMES.fullmatch(own) is not None
        or any(map(_TITLE.fullmatch, (own, before)))
        or (is_before_name and _BEFORE_NAME.fullmatch(own) is not None)
        or (is_after_name and any(names.fullmatch(own) for names in (_AFTER_NAME, _SURNAMES)))
    )


def _begins_sentence(words: Sequence[re.Match[str]], number: int) -> bool:
    if number == 0:
        return True
    word = words[number]
    return re.search('[.!?:…|>_]', word.string[words[number - 1].end() : word.start()]) is not None


def _preferences(forms: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> list[int]:
    """For each pair of spellings, whether the vocabulary prefers the second (above 0) or the first (below).

    It prefers the second if that is one piece: of two spellings by several, the number of pieces says little.
    """
    empty, *encoded = tokenizer.encode(['', *(form for pair in forms for form in pair)])
    one_piece = len(empty) + 1

    def preference(first: list[int], second: list[int]) -> int:
        if len(first) == len(second) == one_piece:
            return (first > second) - (first < second)  # the more frequent a piece, the smaller its number
        return min(len(first) - len(second), int(len(second) == one_piece))

    return list(map(preference, encoded[::2], encoded[1::2]))


def _lower(text: str) -> str:
    """The text in small letters where those are as many: İ has two."""
    return ''.join(low if len(low := character.lower()) == 1 else character for character in text)


def _capitalized(word: str) -> str:
    first = word[0].upper()
    return (first if len(first) == 1 else word[0]) + _lower(word[1:])

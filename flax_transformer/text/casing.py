"""Lines in capitals, small letters or Title Case as the sentences from which a model has learned.

Which words keep a capital, the training text tells (truecasing, after Koehn et al. 2008, W08-0318), or, where that is
not known, the vocabulary: a word that it spells with fewer pieces so, or with a more frequent one, is a name, or a
German noun.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from .tokenizer import Tokenizer

# How a word in small letters is often written within sentences, the most frequent first.
Forms = Callable[[str], Sequence[str]]
Knows = Callable[[str], bool]  # whether a training text has a word in small letters

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_CLITIC = re.compile("['’](?:s|d|m|t|ll|ve|re)$")
_ABBREVIATION = re.compile(
    r'abs|bzw|ca|dr|etc|evtl|ggf|inkl|mio|mrd?|mrs|ms|nr|prof|st|\w*str|tel|usw|vgl|vs|zzgl', re.I
)
# What ends a sentence right after a word or a year, with the white space that follows.
_STOP = re.compile(r"""(?:[ ]\d{4})?\s?[)\]"'»”’]{,3}([.!?]+|:)[)\]"'»”’]{,3}\s""")
_LONGEST = 60  # letters of a word
_SHORT = 2  # letters, with an apostrophe: rock'n'roll
# German pronouns that with a capital mean you, as mostly in titles.
_POLITE = re.compile('ihr(?:e[mnrs]?)?')
# An article and a noun, in small letters; what ends as an adjective may be one.
_WITH_ARTICLE = re.compile(
    r'(?:d(?:er|as|en|em|es)|[mdsk]?ein(?:e[mnrs]?)?|unse?re?[mnrs]?|zu[mr]|[ia]m|beim|vom) '
    r'(?!paar)\w+(?<!e)(?<!e[mnrs])|das \w+en'
)
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
# With one of these before it, any other capitalized word is of a headline, too.
_SUBJECT = re.compile("(?:I|he|she|we|you|they)(?:['’](?:d|m|ll|re|s|ve))?", re.I)
# Capitalized within a line of capitalized words, these are of a German one.
_GERMAN_TELLING = re.compile(
    'ich|du|er|es|wir|mich|mir|dich|dir|ihn|uns|euch|wer|was|wo|wie|wann|warum|d(?:er|ie|as|en|em|es)|'
    '(?:[mdsk])?ein(?:e[mnrs]?)?|und|oder|aber|denn|dass|wenn|ob|als|nicht|nur|auch|noch|schon|sehr|so|'
    'bin|bist|ist|sind|seid|war(?:en)?|hab(?:e|en|t)|hat(?:te)?|wird|werden|kann|muss|will|'
    'in|im|an|am|auf|aus|bei|beim|bis|durch|für|gegen|mit|nach|ohne|um|unter|über|von|vom|vor|zu|zum|zur',
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


def in_sentence_case(text: str, tokenizer: Tokenizer, forms: Forms | None = None, *, begins: bool = True) -> str:
    """A text in capitals, or in small letters, with the capitals of a sentence; as long as it was.

    With `begins`, it is the beginning of one. In small letters, a word that is often written so stays as it is.
    """
    is_small = text.islower()
    words = list(_WORD.finditer(text))
    small = [_lower(word[0]) for word in words]
    if forms is None:
        preferences = _preferences([(_capitalized(word), word) for word in small], tokenizer)
        names = [len(word) > 1 and preference < 0 for word, preference in zip(small, preferences, strict=True)]
        written = [_capitalized(word) if is_name else word for word, is_name in zip(small, names, strict=True)]
    else:
        written = [_written(word, forms, stays_small=is_small) for word in small]
        if is_small:
            _write_nouns(written, forms)

    letters = [*_lower(text)]
    for i, word in enumerate(words):
        form = 'I' if word[0] == 'I' else written[i]
        if i > 0 and len(form) == 1 and text[words[i - 1].end() : word.start()] == '.':
            form = form.upper() if written[i - 1].isupper() else small[i]  # U.S. and a.m.
        if begins if i == 0 else _ends_before(words, i, is_small=is_small):
            form = _with_capital(form)
        if len(form) == len(word[0]):
            letters[word.start() : word.end()] = form
    return ''.join(letters)


def _written(word: str, forms: Forms, *, stays_small: bool = False) -> str:
    """How a word in small letters, which may have an apostrophe, is mostly written; or small, if it often is."""

    def written(part: str) -> str:
        own = forms(part)
        return part if stays_small and part in own else own[0]

    clitic = _CLITIC.search(word)
    end = clitic.start() if clitic else len(word)
    if stays_small and (word == 'i' or _ABBREVIATION.fullmatch(word)):
        return word
    if word[:end] == 'i':
        return 'I' + word[end:]
    first, *others = re.split("(?<=['’])", word[:end])
    if not others:
        return written(first) + word[end:]
    form = ''.join(written(part) if len(part) > _SHORT else part for part in others)
    is_irish = first[0] == 'o' and form[:1].isupper()  # O'Brien, but o'clock and l'Europe
    return (first.upper() if is_irish else first) + form + word[end:]


def _write_nouns(words: list[str], forms: Forms) -> None:
    """Gives a word that may be a noun its capital where an article is before it and no other noun behind."""
    for i, (before, word) in enumerate(itertools.pairwise(words), 1):
        noun = next((form for form in forms(word) if form.istitle()), None) if word.islower() else None
        is_last = i + 1 == len(words) or words[i + 1].islower()
        if noun and is_last and _WITH_ARTICLE.fullmatch(f'{before} {word}'):
            words[i] = noun


def places_of_sharp_s(text: str, tokenizer: Tokenizer, knows: Knows = lambda word: False) -> list[int]:
    """Where SS in a German text in capitals is ß: of each, the place of the first S.

    It is where the training text has the word so alone, or else as far as the vocabulary tells.
    """
    places = []
    forms = []
    for word in _WORD.finditer(text):
        for found in re.finditer('SS', word[0] if len(word[0]) <= _LONGEST else ''):
            places.append(word.start() + found.start())
            for spelled in (word[0][: found.start()] + 'ß' + word[0][found.end() :], word[0]):
                forms += [_lower(spelled), _capitalized(spelled)]
    encoded = [(len(ids), ids) for ids in tokenizer.encode(forms)]
    known = list(map(knows, forms))

    def is_sharp(i: int) -> bool:
        own, other = 4 * i, 4 * i + 2
        if known[own] != known[other]:
            return known[own]
        return min(encoded[own:][:2]) < min(encoded[other:][:2])

    return [place for i, place in enumerate(places) if is_sharp(i)]


def sentence_of_title(
    text: str, kept: Sequence[tuple[int, int]], tokenizer: Tokenizer, forms: Forms | None = None
) -> str:
    """An English text in Title Case with the capitals of a sentence, but for what is kept; any other as it is.

    A word that may be a name keeps its capital: a model copies it.
    """
    seen = _without(text, kept)
    words = list(_WORD.finditer(seen))
    if len(words) < 2 or any(word[0].islower() and not _SMALL.fullmatch(word[0]) for word in words):
        return text
    if _COMPANY.search(seen):
        return text

    if forms is None:
        preferences = _preferences([(word[0], _lower(word[0])) for word in words], tokenizer)
    else:
        preferences = [1 if _is_always_small(_lower(word[0]), forms) else -1 for word in words]
    lowered = []
    for i, word in enumerate(words):
        if _is_titled(word) and not _begins_sentence(words, i) and not _keeps_capital(words, i, preferences):
            lowered.append(word)
    has_subject = _SUBJECT.fullmatch(words[0][0]) is not None
    if not has_subject and not any(word[0][1:] and _TELLING.fullmatch(word[0]) for word in lowered):
        return text
    return _with_small(text, lowered)


def sentence_of_german_title(text: str, kept: Sequence[tuple[int, int]], forms: Forms) -> str:
    """A German text all of whose words have capitals with those of a sentence, but for what is kept."""
    seen = _without(text, kept)
    if any(word[0].islower() for word in _WORD.finditer(seen)):
        return text
    words = list(_WORD.finditer(seen))
    titled = [word for i, word in enumerate(words) if _is_titled(word) and not _begins_sentence(words, i)]
    if not any(_GERMAN_TELLING.fullmatch(word[0]) for word in titled):
        return text
    return _with_small(text, [word for word in titled if _is_always_small(_lower(word[0]), forms)])


def _is_titled(word: re.Match[str]) -> bool:
    return word[0] == _capitalized(word[0]) and word.string[word.start() - 1] != '-'


def _is_always_small(word: str, forms: Forms) -> bool:
    """Whether a word is hardly ever written with a capital within a sentence."""
    stem = word[: clitic.start()] if (clitic := _CLITIC.search(word)) else word
    return stem != 'i' and not _POLITE.fullmatch(stem) and all(form.islower() for form in forms(stem))


def _without(text: str, kept: Sequence[tuple[int, int]]) -> str:
    """The text with blanks where something is kept."""
    if not kept:
        return text
    taken = {place for start, end in kept for place in range(start, end)}
    return ''.join(' ' if place in taken else character for place, character in enumerate(text))


def _with_small(text: str, words: Iterable[re.Match[str]]) -> str:
    """The text, these of its words without their capital."""
    letters = [*text]
    for word in words:
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
    return number == 0 or _ends_before(words, number)


def _ends_before(words: Sequence[re.Match[str]], number: int, *, is_small: bool = False) -> bool:
    """Whether a sentence ends before a word; in small letters, not with a colon or another sign."""
    before, word = words[number - 1], words[number]
    between = word.string[before.end() : word.start()]
    if not is_small and re.search('[…|>_]', between):
        return True
    stop = _STOP.match(between)
    if not stop or (is_small and stop[1] == ':'):
        return False
    if stop[1].strip('.'):
        return True
    return stop[1] == '.' and len(before[0]) > 1 and not _ABBREVIATION.fullmatch(before[0])


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
    return _with_capital(_lower(word))


def _with_capital(word: str) -> str:
    first = word[0].upper()
    return (first if len(first) == 1 else word[0]) + word[1:]

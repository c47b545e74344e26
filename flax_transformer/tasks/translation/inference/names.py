"""Names that a model has never seen, which it would misspell: capitalized words that its training text lacks."""

import re
from collections.abc import Iterator

from flax_transformer.tasks.translation.words import Lexicon, ends_as_noun, has_capital_nouns
from flax_transformer.text.languages import two_letters

from .persons import DETERMINER

_LETTER = r'[^\W\d_]'
_JOINED = r'\w\-\xad\u200b-\u200d\u0300-\u036f'
_WORD = re.compile(rf"(?<![{_JOINED}'’]){_LETTER}+(?:[-'’]{_LETTER}+)*(?![{_JOINED}])")
_CLITIC = re.compile(r"['’](?:s|ll|ve|re)(?!\w)", re.I)  # Obama's
_LAST_CLITIC = re.compile(rf'{_CLITIC.pattern}$', re.I)
_TITLE = re.compile(rf'(?<!\w)(?=[^\W\d_a-zäöüß]){_LETTER}{{4,}} $')  # Familie, President, a first name
_BEGINNING = re.compile(r'(?:^|[.!?:]\s)\W*$')
# A word that begins an English sentence is a verb before these, and other words than names end so.
_AFTER_VERB = re.compile(
    r'[ ](?:the|an?|th(?:is|at|ese|ose)|your|my|his|her|its|our|their|all|any|every|each|some|it|them|me|us|him|with|'
    r'from|for|to|by|on|in|at|into|up|out|off|over|down|if|when)\b'
)
_NO_NAME = re.compile('(?:able|ible|i[sz]e[sd]?|ing|[st]ions?|ments?|ness|ly|ism|less|ful|ous|ed|ology|ships?)$')
_NEAR = 60  # characters
_ACRONYM = range(2, 7)  # letters
_SHORTEST = 3  # letters of a name; O'Brien has one of these
# German nouns that are no names end as such, are composed of known words, or have an article.
_LAST_OF_COMPOUND = 5  # letters
_FIRST_OF_COMPOUND = 6


class Names:
    """Finds names in texts of one language."""

    def __init__(self, language: str, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._has_capital_nouns = has_capital_nouns(language)
        self._is_english = two_letters(language) == 'en'

    def __call__(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yields the start, end and kind of each: `name`, or `person` where a first name cannot stand for it.

        Words next to each other are one name.
        """
        spans: list[tuple[int, int]] = []
        words = [word for word in _WORD.findall(text) if len(word) > 1]
        has_acronyms = 2 * sum(map(str.isupper, words)) <= len(words)  # else it is in capitals
        for match in _WORD.finditer(text):
            start = match.start()
            word = _LAST_CLITIC.sub('', match[0])
            goes_on = bool(spans) and text[spans[-1][1] : start] == ' '
            end = start + len(word)
            if word.isupper():
                is_name = has_acronyms and self._is_acronym(word)
            else:
                is_name = self._is_name(word, goes_on) and not self._is_other(word, text, start, end)
            if not is_name:
                continue
            if goes_on:
                start, _ = spans.pop()
            spans.append((start, end))
        for start, end in spans:
            is_surname = _CLITIC.match(text, end) or _TITLE.search(text, max(start - _NEAR, 0), start)
            yield start, end, 'person' if is_surname else 'name'

    def _is_name(self, word: str, goes_on: bool) -> bool:
        """Whether a word is a name; one that goes on with a name may look like a form of another word."""
        parts = [part for part in re.split("[-'’]", word.lower()) if len(part) >= _SHORTEST]
        if not parts or not word[0].isupper():
            return False
        if not all(self._lexicon.has_letters(part) for part in parts):
            return True
        is_known = self._lexicon.has_word if goes_on else self._lexicon.has_form
        if any(is_known(part) for part in parts):
            return False
        return not (self._has_capital_nouns and any(ends_as_noun(part) or self._is_compound(part) for part in parts))

    def _is_acronym(self, word: str) -> bool:
        return word.isalpha() and len(word) in _ACRONYM and not self._lexicon.has_word(word.lower())

    def _is_compound(self, word: str) -> bool:
        beginnings = range(_FIRST_OF_COMPOUND, len(word))
        is_begun = any(self._lexicon.has_word(word[:i]) for i in beginnings)
        return is_begun or self._lexicon.last_of_compound(word, _LAST_OF_COMPOUND) is not None

    def _is_other(self, word: str, text: str, start: int, end: int) -> bool:
        """Whether what stands around a word tells that it is none: an article before a noun, a verb that begins."""
        before = max(start - _NEAR, 0), start
        if self._has_capital_nouns and DETERMINER.search(text, *before):
            return True
        if not _BEGINNING.search(text, *before) or _CLITIC.match(text, end):
            return False
        if self._has_capital_nouns:
            return word.endswith('en')
        return not self._is_english or bool(_AFTER_VERB.match(text, end) or _NO_NAME.search(word))

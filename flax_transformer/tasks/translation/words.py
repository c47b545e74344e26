"""The words of a model's training text, by language.

They tell names that it has never seen, and how a word in capitals is written in a sentence (truecasing, after
Koehn et al. 2008, W08-0318).
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from flax_transformer.common.files import MOST_WORDS, naming_damage, read_limited, write_whole
from flax_transformer.text.languages import two_letters

FILE = 'training_words.txt'  # its name in a run directory: a line for each language, which comes first
_WORD = re.compile(r'[^\W\d_]+')
_WITHIN = re.compile(r'(?<=[\w,] )[^\W\d_]+')  # words within a sentence
_ENDING = 3  # letters in which forms of a word may differ
_STEM = 5  # letters of the shortest stem
_LAST_OF_COMPOUND = 4  # letters
# Only German nouns end so.
_NOUN = re.compile(
    r'(?:ung|heit|keit|schaft|tät|ion|ismus|nis|ling|chen|lein|tum|enz|anz|ierer|ler|ner)(?:e?[ns]|en|er|innen|e)?$'
)
_OFTEN = 3  # occurrences of a name that a model can spell, or translate
# Words of a language from which those that are not among them are rare, and most that are kept, the most frequent.
_FEWEST = 10_000
_MOST = 500_000


def has_capital_nouns(language: str) -> bool:
    """Whether a capital within a sentence is no sign of a name."""
    return two_letters(language) in ('de', 'lb', 'nds')


def ends_as_noun(word: str) -> bool:
    return _NOUN.search(word) is not None


class _Found:
    """Words of one language while they are gathered."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()  # by the word in small letters
        self._small: set[str] = set()  # in small letters somewhere
        self._within: Counter[str] = Counter()  # as written within sentences, where capitals mean something

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = [word for word in _WORD.findall(line) if word[0].islower() or word[0].isupper()]
            self._counts.update(map(str.lower, words))
            self._small.update(word for word in words if word[0].islower())
            if not line.isupper():
                self._within.update(_WITHIN.findall(line))

    def known(self, *, but_for_names: bool) -> list[str]:
        """The most frequent words, each as it is mostly written within sentences, sorted in small letters."""
        usual: dict[str, str] = {}
        for form, count in self._within.items():
            word = form.lower()
            if word not in usual or (count, form) > (self._within[usual[word]], usual[word]):
                usual[word] = form
        names = {word for word, form in usual.items() if form[0].isupper()} - self._small
        seldom = {word for word in names if self._counts[word] < _OFTEN} if but_for_names else ()
        words = sorted(word for word, _ in self._counts.most_common(_MOST) if word not in seldom)
        return [usual.get(word, word) for word in words]


class Lexicon:
    """The words of one language. Those that it is asked for are in small letters."""

    def __init__(self, language: str, written: Sequence[str]) -> None:
        """Takes words as they are mostly written within sentences, sorted in small letters."""
        self.written = written
        self._has_capital_nouns = has_capital_nouns(language)

    def has_word(self, word: str) -> bool:
        return self._first_from(word).lower() == word

    def has_form(self, word: str) -> bool:
        """Whether some word begins alike: it may be another form of the same."""
        return self._alike(word) is not None

    def has_letters(self, word: str) -> bool:
        """Whether each letter occurs in some word."""
        return self._letters.issuperset(word)

    def usual(self, word: str) -> str:
        """How a word, or one like it, is mostly written within sentences; one unlike all others is a name or a noun."""
        if self.has_word(word):
            return self._first_from(word)
        alike = self._alike(word)
        is_small = alike is not None
        if self._has_capital_nouns:
            endings = (word[i:] for i in range(1, len(word) - _LAST_OF_COMPOUND + 1))
            last = next(filter(self.has_word, endings), None)
            alike = self._first_from(last) if last else alike
            is_small = alike is not None and alike[0].islower() and not ends_as_noun(word)
        return word if is_small else word[0].upper() + word[1:]

    def _alike(self, word: str) -> str | None:
        stem = word[: max(len(word) - _ENDING, _STEM)]
        first = self._first_from(stem)
        return first if first.lower().startswith(stem) else None

    def _first_from(self, word: str) -> str:
        """The first that does not come before a word; '' behind the last."""
        place = bisect_left(self._words, word)
        return self.written[place] if place < len(self.written) else ''

    @cached_property
    def _words(self) -> list[str]:
        return list(map(str.lower, self.written))

    @cached_property
    def _letters(self) -> set[str]:
        return set().union(*self._words)


class TrainingWords:
    """The lexicons of a model, by language."""

    def __init__(self, lexicons: Mapping[str, Lexicon]) -> None:
        self._lexicons = lexicons

    @classmethod
    def of(cls, texts: Iterable[tuple[str, Iterable[str]]]) -> Self:
        """The words of texts, the language of each and its lines, but for names that are seldom there.

        Of languages with few words it has none: of these many more are missing than names.
        """
        found: dict[str, _Found] = {}
        for language, lines in texts:
            found.setdefault(language, _Found()).add(lines)

        known = {name: own.known(but_for_names=not has_capital_nouns(name)) for name, own in found.items()}
        return cls({language: Lexicon(language, words) for language, words in known.items() if len(words) >= _FEWEST})

    def get(self, language: str) -> Lexicon | None:
        return self._lexicons.get(language)

    def joined(self, other: Self) -> Self:
        """Both words of the languages that this has; what both have is written as here."""
        lexicons = {}
        for language, own in self._lexicons.items():
            theirs = other.get(language)
            forms = {form.lower(): form for form in [*(theirs.written if theirs else ()), *own.written]}
            lexicons[language] = Lexicon(language, [forms[word] for word in sorted(forms)])
        return type(self)(lexicons)

    def write(self, run: Path) -> None:
        """Writes them, unless they are none or too many to be read."""
        rows = [' '.join([language, *own.written]) + '\n' for language, own in self._lexicons.items()]
        content = ''.join(rows).encode()
        if 0 < len(content) <= MOST_WORDS:
            write_whole(run / FILE, content)

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """A run's words; None: it has none, as runs of earlier versions. Raises UserError if they are damaged."""
        file = run / FILE
        if not file.exists():
            return None
        with naming_damage(file, 'remove it; then names are translated as other words are'):
            rows = [line.split(' ') for line in read_limited(file, MOST_WORDS).decode().splitlines()]
        return cls({language: Lexicon(language, words) for language, *words in rows if words})

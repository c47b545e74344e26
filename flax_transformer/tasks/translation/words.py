"""The words of a model's training text, by language: what tells names that it has never seen."""

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
_OFTEN = 3  # occurrences of a name that a model can spell, or translate
# Words of a language from which those that are not among them are rare, and most that are kept, the most frequent.
_FEWEST = 10_000
_MOST = 500_000


def has_capital_nouns(language: str) -> bool:
    """Whether a capital within a sentence is no sign of a name."""
    return two_letters(language) in ('de', 'lb', 'nds')


class _Found:
    """Words of one language while they are gathered."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._small: set[str] = set()  # in small letters somewhere
        self._names: set[str] = set()  # with a capital within a sentence

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = [word for word in _WORD.findall(line) if word[0].islower() or word[0].isupper()]
            self.counts.update(map(str.lower, words))
            self._small.update(word for word in words if word[0].islower())
            self._names.update(word.lower() for word in _WITHIN.findall(line) if word[0].isupper())

    def known(self, *, but_for_names: bool) -> list[str]:
        seldom = {word for word in self._names - self._small if self.counts[word] < _OFTEN} if but_for_names else ()
        return sorted(word for word, _ in self.counts.most_common(_MOST) if word not in seldom)


class Lexicon:
    """The words of one language, in small letters."""

    def __init__(self, words: Sequence[str]) -> None:
        """Takes them sorted."""
        self.words = words

    def has_word(self, word: str) -> bool:
        return self._first_from(word) == word

    def has_form(self, word: str) -> bool:
        """Whether some word begins alike: it may be another form of the same."""
        stem = word[: max(len(word) - _ENDING, _STEM)]
        return self._first_from(stem).startswith(stem)

    def has_letters(self, word: str) -> bool:
        """Whether each letter occurs in some word."""
        return self._letters.issuperset(word)

    def _first_from(self, word: str) -> str:
        """The first that does not come before a word; '' behind the last."""
        place = bisect_left(self.words, word)
        return self.words[place] if place < len(self.words) else ''

    @cached_property
    def _letters(self) -> set[str]:
        return set().union(*self.words)


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
        return cls({language: Lexicon(words) for language, words in known.items() if len(words) >= _FEWEST})

    def get(self, language: str) -> Lexicon | None:
        return self._lexicons.get(language)

    def joined(self, other: Self) -> Self:
        """Both words of the languages that this has."""
        lexicons = {}
        for language, own in self._lexicons.items():
            theirs = other.get(language)
            lexicons[language] = Lexicon(sorted({*own.words, *theirs.words})) if theirs else own
        return type(self)(lexicons)

    def write(self, run: Path) -> None:
        """Writes them, unless they are none or too many to be read."""
        rows = [' '.join([language, *own.words]) + '\n' for language, own in self._lexicons.items()]
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
        return cls({language: Lexicon(words) for language, *words in rows if words})

"""The words of a model's training text, by language: what tells names that it has never seen."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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


class TrainingWords:
    """Words in small letters, sorted, by language."""

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        self._words = words
        self._letters: dict[str, set[str]] = {}

    @classmethod
    def of(cls, texts: Iterable[tuple[str, Iterable[str]]]) -> Self:
        """The words of texts, the language of each and its lines, but for names that are seldom there.

        Of languages with few words it has none: of these many more are missing than names.
        """
        found: dict[str, _Found] = {}
        for language, lines in texts:
            found.setdefault(language, _Found()).add(lines)

        known = {name: own.known(but_for_names=not has_capital_nouns(name)) for name, own in found.items()}
        return cls({language: words for language, words in known.items() if len(words) >= _FEWEST})

    def joined(self, other: Self) -> Self:
        """Both words of the languages that this has."""
        return type(self)({name: sorted({*own, *other._words.get(name, ())}) for name, own in self._words.items()})

    def has_language(self, language: str) -> bool:
        return language in self._words

    def has_word(self, language: str, word: str) -> bool:
        return self._first_from(language, word) == word

    def has_form(self, language: str, word: str) -> bool:
        """Whether some word begins alike: it may be another form of the same."""
        stem = word[: max(len(word) - _ENDING, _STEM)]
        return self._first_from(language, stem).startswith(stem)

    def has_letters(self, language: str, word: str) -> bool:
        """Whether each letter occurs in some word."""
        if language not in self._letters:
            self._letters[language] = set().union(*self._words[language])
        return self._letters[language].issuperset(word)

    def _first_from(self, language: str, word: str) -> str:
        """The first that does not come before a word; '' behind the last."""
        words = self._words[language]
        place = bisect_left(words, word)
        return words[place] if place < len(words) else ''

    def write(self, run: Path) -> None:
        """Writes them, unless they are none or too many to be read."""
        content = ''.join(' '.join([name, *words]) + '\n' for name, words in self._words.items()).encode()
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
        return cls({language: words for language, *words in rows if words})

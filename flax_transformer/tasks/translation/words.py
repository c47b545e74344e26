"""The words of a model's training text, by language.

They tell names that it has never seen, and how a word in capitals is written in a sentence (truecasing, after
Koehn et al. 2008, W08-0318).
"""

import re
from bisect import bisect_left, bisect_right
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
_SHARE = 0.1  # a form counts that is this much of a word's occurrences within sentences
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
    """Words of one language while they are gathered, as they are written."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._within: Counter[str] = Counter()  # those within sentences, where capitals mean something

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = [word for word in _WORD.findall(line) if word[0].islower() or word[0].isupper()]
            if line.isupper():
                self._all.update(map(str.lower, words))
            else:
                self._all.update(words)
                self._within.update(_WITHIN.findall(line))

    def known(self, *, but_for_names: bool) -> list[str]:
        """The most frequent words, sorted in small letters, each in its forms, of which the most frequent is first."""
        forms = _by_word(self._all)
        counts = Counter({word: sum(map(self._all.__getitem__, own)) for word, own in forms.items()})
        within = _by_word(self._within)
        names = {word for word in within if all(form[0].isupper() for form in forms.get(word, ()))}
        seldom = {word for word in names if counts[word] < _OFTEN} if but_for_names else ()
        words = sorted(word for word, _ in counts.most_common(_MOST) if word not in seldom)

        written = []
        for word in words:
            found, own = self._within, within.get(word)
            if not own:  # it only begins sentences
                found, own = self._all, [form for form in forms[word] if form.islower()] or forms[word]
            own.sort(key=lambda form: (found[form], form), reverse=True)
            least = _SHARE * sum(map(found.__getitem__, own))
            written += [form for form in own if found[form] >= least]
        return written


def _by_word(forms: Iterable[str]) -> dict[str, list[str]]:
    """Forms by the word in small letters."""
    found: dict[str, list[str]] = {}
    for form in forms:
        found.setdefault(form.lower(), []).append(form)
    return found


class Lexicon:
    """The words of one language. Those that it is asked for are in small letters."""

    def __init__(self, language: str, written: Sequence[str]) -> None:
        """Takes words as they are often written within sentences, sorted as if in small letters.

        Of the forms of a word the most frequent is first.
        """
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

    def last_of_compound(self, word: str, least: int) -> str | None:
        """The longest known word of at least `least` letters that ends another, as it is mostly written."""
        endings = (word[i:] for i in range(1, len(word) - least + 1))
        known = next(filter(self.has_word, endings), None)
        return self._first_from(known) if known else None

    @cached_property
    def has_capitals(self) -> bool:
        """Whether it tells how words are written; a lower-cased training text does not."""
        return any(not form.islower() for form in self.written)

    def forms(self, word: str) -> Sequence[str]:
        """How a word is often written within sentences, the most frequent first.

        An unknown word may be written as one like it, or it is a name; where nouns have capitals, also a noun.
        """
        first = bisect_left(self._words, word)
        last = bisect_right(self._words, word, first)
        if first < last:
            return self.written[first:last]
        alike = self._alike(word) if len(word) >= _STEM else None
        if self._has_capital_nouns:
            alike = self.last_of_compound(word, _LAST_OF_COMPOUND) or alike
        is_small = alike is not None and alike[0].islower()
        if self._has_capital_nouns and ends_as_noun(word):
            is_small = False
        name = word[0].upper() + word[1:]
        return [word, name] if is_small else [name]

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
            forms = _by_word(theirs.written if theirs else ()) | _by_word(own.written)
            lexicons[language] = Lexicon(language, [form for word in sorted(forms) for form in forms[word]])
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
        with naming_damage(file, 'remove it; then unseen names and capitals are left to the model'):
            rows = [line.split(' ') for line in read_limited(file, MOST_WORDS).decode().splitlines()]
        return cls({language: Lexicon(language, words) for language, *words in rows if words})

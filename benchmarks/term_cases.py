"""Lines of Tatoeba with a term of a user's own choice, for `terms.py`."""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.data.lines import read_lines

LINES, LINES_OF_A_SYNONYM = 150, 6
SYNONYMS = {
    'de': """\
house Haus Gebäude|car Auto Wagen|picture Bild Gemälde|doctor Arzt Mediziner|boss Chef Boss
job Arbeit Stelle|phone Telefon Handy|boy Junge Bub|happy glücklich froh|city Stadt Großstadt
train Zug Bahn|letter Brief Schreiben|money Geld Bargeld|dinner Abendessen Abendbrot|movie Film Streifen
dog Hund Vierbeiner|girl Mädchen Mädel|room Zimmer Raum|store Geschäft Laden|teacher Lehrer Pädagoge
mistake Fehler Irrtum|friend Freund Kumpel|wife Frau Gattin|husband Mann Gatte|accident Unfall Unglück
answer Antwort Erwiderung|begin anfangen beginnen|speak sprechen reden|beautiful schön hübsch
difficult schwierig knifflig|easy einfach leicht|sad traurig betrübt|often oft häufig
suddenly plötzlich auf_einmal|probably wahrscheinlich vermutlich|immediately sofort umgehend
maybe vielleicht eventuell|finally endlich schließlich|computer Computer Rechner
police Polizei Gendarmerie|idea Idee Einfall|angry wütend zornig|tired müde erschöpft|exam Prüfung Examen
plane Flugzeug Flieger|hospital Krankenhaus Klinik|street Straße Gasse|help Hilfe Unterstützung
present Geschenk Präsent|photo Foto Aufnahme|stupid dumm töricht|children Kinder Sprösslinge
question Frage Anfrage|weather Wetter Klima|restaurant Restaurant Gaststätte|garden Garten Park
work arbeiten schuften|began begann startete|always immer stets|of_course natürlich selbstverständlich
right_now gerade im_Augenblick""",
    'en': """\
Haus house building|Auto car vehicle|Bild picture painting|Arzt doctor physician|Chef boss superior
Arbeit work labor|Telefon phone telephone|Junge boy lad|glücklich happy content|Stadt city municipality
Stadt town settlement|Zug train railway_train|Brief letter message|Geld money cash
Abendessen dinner supper|Film movie film|Hund dog hound|Mädchen girl young_lady|Zimmer room chamber
Geschäft store shop|Lehrer teacher instructor|Problem problem issue|Fehler mistake error|Freund friend pal
Frau wife spouse|Unfall accident crash|Antwort answer reply|schön beautiful lovely
schwierig difficult challenging|einfach easy simple|traurig sad unhappy|oft often frequently
plötzlich suddenly all_of_a_sudden|wahrscheinlich probably most_likely|sofort immediately right_away
vielleicht maybe perhaps|endlich finally at_last|Idee idea notion|wütend angry furious
müde tired exhausted|Prüfung exam examination|Flugzeug plane aircraft|Krankenhaus hospital clinic
Straße street avenue|Hilfe help assistance|Geschenk present gift|Foto picture photograph|krank sick ill
klug smart clever|begann began started|Kinder children kids|immer always constantly|Garten garden backyard
Rechner computer machine|Wagen car automobile|sprechen speak converse|Buch book volume
Fahrrad bicycle bike|Wasser water H2O|Schlüssel key opener|Kuchen cake pastry|Hut hat cap""",
}
ENDINGS = 'e', 'en', 'er', 'em', 'es', 'n', 's', 't', 'te', 'ten', 'st'
TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


class Case(NamedTuple):
    source: str
    word: str  # of the source
    term: str
    kind: str  # reference or synonym
    # (tokens of a reference, begin and end of what stands for the word in it)
    witnesses: list[tuple[list[str], int, int]]


class InflectedCase(NamedTuple):
    """A line whose reference has another form of the word's translation than the first."""

    source: str
    word: str
    forms: list[str]  # the shortest first
    references: str  # tab-separated


class Corpus:
    """Tatoeba in one direction: its training text, and lines that no model has learned."""

    def __init__(self, folder: Path, to: str) -> None:
        self.to = to
        self.other = 'en' if to == 'de' else 'de'
        self._folder = folder
        self.pairs = list(zip(self.read(f'train.{self.other}.gz'), self.read(f'train.{to}.gz'), strict=True))

        half = [([w.lower() for w in tokens_of(source)], tokens_of(target)) for source, target in self.pairs[::2]]
        self.translations = align(half)  # in lower case, and how probable they are
        self.frequent = most_frequent(Counter(word for _, target in half for word in target))

    def read(self, name: str) -> list[str]:
        return list(read_lines(self._folder / name))

    def unseen(self) -> list[tuple[str, str]]:
        """Lines of the sets for testing and developing, each with its first reference."""
        pairs = []
        for part in ('test', 'dev'):
            pairs += zip(self.read(f'{part}.{self.other}'), self.read(f'{part}.{self.to}'), strict=True)
        return pairs

    def with_all_references(self) -> dict[str, list[str]]:
        """The references of each source; into English, the training text's as well: the sets have one each."""
        if self.to == 'de':
            return {source: row.split('\t') for source, row in self.with_rows_of_references()}
        references: dict[str, list[str]] = {}
        for source, target in [*self.pairs, *self.unseen()]:
            references.setdefault(source, []).append(target)
        return references

    def with_rows_of_references(self) -> list[tuple[str, str]]:
        """Lines into German and all their references, tab-separated."""
        pairs = []
        for part in ('test', 'dev'):
            pairs += zip(self.read(f'{part}.en'), self.read(f'{part}.allrefs.de.tsv'), strict=True)
        return pairs


def tokens_of(line: str) -> list[str]:
    return TOKEN.findall(line)


def most_frequent(counts: Counter[str]) -> set[str]:
    """The words that are no terms: the 150 most frequent ones."""
    return {word for word, _ in counts.most_common(150)}


def align(pairs: Sequence[tuple[list[str], list[str]]], rounds: int = 4) -> dict[str, dict[str, float]]:
    """t(target | source) of IBM model 1, above 0.03, by source word and target word."""
    names = [{word: i for i, word in enumerate(sorted({w for pair in pairs for w in pair[side]}))} for side in (0, 1)]
    keys, rows = [], []
    number = 0
    for source, target in pairs:
        for word in target:
            keys += [names[0][each] * len(names[1]) + names[1][word] for each in source]
            rows += [number] * len(source)
            number += 1
    unique, place = np.unique(np.array(keys), return_inverse=True)
    rows, of_source = np.array(rows), unique // len(names[1])
    probability = np.ones(len(unique))
    for _ in range(rounds):
        weights = probability[place]
        share = weights / np.bincount(rows, weights)[rows]
        counts = np.bincount(place, share)
        probability = counts / np.bincount(of_source, counts)[of_source]
    known = [list(each) for each in names]
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for key, value in zip(unique.tolist(), probability.tolist(), strict=True):
        if value > 0.03:
            table[known[0][key // len(names[1])]][known[1][key % len(names[1])]] = value
    return table


def differing(first: list[str], other: list[str]) -> tuple[int, int, int, int] | None:
    """Where two references differ, if it is in one or two words of their own."""
    begin = 0
    while begin < min(len(first), len(other)) and first[begin] == other[begin]:
        begin += 1
    end = 0
    while end < min(len(first), len(other)) - begin and first[-1 - end] == other[-1 - end]:
        end += 1
    ours, theirs = len(first) - end - begin, len(other) - end - begin
    return (begin, begin + ours, begin, begin + theirs) if ours == 1 and 1 <= theirs <= 2 else None


def cases_of(corpus: Corpus, lines: int = LINES) -> list[Case]:
    """Half of the lines with terms from references, as far as there are any, the others with synonyms."""
    rng = np.random.default_rng(0)
    cases = drawn(cases_of_references(corpus), lines // 2, rng)
    synonyms = cases_of_synonyms(corpus, {case.source for case in cases})
    return cases + drawn(synonyms, lines - len(cases), rng)


def drawn(items: list[Any], number: int, rng: np.random.Generator) -> list[Any]:
    """So many of the items, at random, in their order."""
    return [items[i] for i in sorted(rng.permutation(len(items))[:number])]


def cases_of_references(corpus: Corpus) -> list[Case]:
    """Lines with a word that another reference translates otherwise than the first one: that is the term."""
    cases = []
    for source, references in corpus.with_all_references().items():
        first, *others = map(tokens_of, dict.fromkeys(references))
        found = (case_of_references(corpus, source, first, other) for other in others)
        case = next(filter(None, found), None)
        if case is not None:
            cases.append(case)
    return cases


def case_of_references(corpus: Corpus, source: str, first: list[str], other: list[str]) -> Case | None:
    place = differing(first, other)
    if place is None or len(first) < 4:
        return None
    ours, theirs = first[place[0] : place[1]], other[place[2] : place[3]]
    is_content = all(len(word) > 3 and word not in corpus.frequent for word in [*ours, *theirs])
    if not is_content or difflib.SequenceMatcher(None, ours[0].lower(), theirs[0].lower()).ratio() > 0.6:
        return None

    words = tokens_of(source)
    values = {}
    for word in words:
        translations = corpus.translations[word.lower()]
        values[word] = translations.get(ours[0], 0.0) + translations.get(theirs[-1], 0.0)
    word = max(values, key=values.get)
    if values[word] < 0.1 or len(word) < 4 or words.count(word) > 1:
        return None
    return Case(source, word, ' '.join(theirs), 'reference', [(other, *place[2:]), (first, *place[:2])])


def cases_of_synonyms(corpus: Corpus, used: set[str]) -> list[Case]:
    """Lines with a word whose usual translation the reference has; the term is another one. Adds them to `used`."""
    rows = [row.split() for line in SYNONYMS[corpus.to].splitlines() for row in line.split('|')]
    synonyms = [(word.replace('_', ' '), usual, term.replace('_', ' ')) for word, usual, term in rows]
    times: Counter[str] = Counter()
    cases = []
    for source, reference in corpus.unseen():
        words, target = tokens_of(source), tokens_of(reference)
        for word, usual, term in synonyms:
            is_clear = count(words, word.split()) == target.count(usual) == 1 and term not in reference
            if source in used or not is_clear or times[word] >= LINES_OF_A_SYNONYM:
                continue
            times[word] += 1
            used.add(source)
            at = target.index(usual)
            new = [*target[:at], *term.split(), *target[at + 1 :]]
            witnesses = [(new, at, at + len(term.split())), (target, at, at + 1)]
            cases.append(Case(source, word, term, 'synonym', witnesses))
    return cases


def count(words: list[str], phrase: list[str]) -> int:
    return sum(words[i : i + len(phrase)] == phrase for i in range(len(words)))


def stem(word: str) -> str:
    """A German word without the longest ending that leaves four letters."""
    endings = [ending for ending in ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 4]
    return word[: len(word) - len(max(endings, key=len, default=''))]


def inflected(corpus: Corpus, lines: int) -> list[InflectedCase]:
    """Lines into German, at most two for each word."""
    counts = Counter(word for _, target in corpus.pairs for word in tokens_of(target))
    frequent = most_frequent(counts)
    by_stem = defaultdict(list)
    for word, number in counts.items():
        if number > 3:
            by_stem[stem(word)].append(word)

    cases = []
    used: Counter[str] = Counter()
    for source, references in corpus.with_rows_of_references():
        words, target = tokens_of(source), tokens_of(references.partition('\t')[0])
        for word in words:
            likely = corpus.translations.get(word.lower(), {})
            said = [w for w in target if w in likely and len(w) > 4 and w not in frequent and target.count(w) == 1]
            is_clear = len(word) > 3 and words.count(word) == len(said) == 1 and likely[said[0]] > 0.05
            if not is_clear or used[word.lower()] == 2:
                continue
            own = said[0]
            forms = [w for w in by_stem[stem(own)] if w in likely and w[0].isupper() == own[0].isupper()]
            forms.sort(key=lambda form: (len(form), form))
            if own in forms[1:]:
                used[word.lower()] += 1
                cases.append(InflectedCase(source, word, forms, references))
                break
    return drawn(cases, lines, np.random.default_rng(0))


def find(tokens: list[str], phrase: list[str]) -> list[int]:
    size = len(phrase)
    match = lambda i: [tokens[i][:1].lower() + tokens[i][1:], *tokens[i + 1 : i + size]]
    wanted = [phrase[0][:1].lower() + phrase[0][1:], *phrase[1:]]
    return [i for i in range(len(tokens) - size + 1) if match(i) == wanted]

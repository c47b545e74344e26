"""Lines of Tatoeba with a term of a user's own choice, for `terms.py`."""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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


def tokens_of(line: str) -> list[str]:
    return TOKEN.findall(line)


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


def cases_of(folder: Path, to: str, lines: int = LINES) -> tuple[list[Case], dict[str, dict[str, float]]]:
    other = 'en' if to == 'de' else 'de'
    read = lambda name: list(read_lines(folder / name))
    pairs = list(zip(read(f'train.{other}.gz'), read(f'train.{to}.gz'), strict=True))
    lower = [([w.lower() for w in tokens_of(a)], tokens_of(b)) for a, b in pairs[::2]]
    table = align(lower)
    common = Counter(word for _, target in lower for word in target)
    frequent = {word for word, _ in common.most_common(150)}
    if to == 'de':
        groups = {
            source: row.split('\t')
            for name in ('test', 'dev')
            for source, row in zip(read(f'{name}.en'), read(f'{name}.allrefs.de.tsv'), strict=True)
        }
    else:
        groups = {}
        for source, target in [
            *pairs,
            *zip(read('test.de'), read('test.en'), strict=True),
            *zip(read('dev.de'), read('dev.en'), strict=True),
        ]:
            groups.setdefault(source, []).append(target)
    cases = []
    for source, references in groups.items():
        first, *others = map(tokens_of, dict.fromkeys(references))
        for second in others:
            place = differing(first, second)
            if place is None or len(first) < 4:
                continue
            ours, theirs = first[place[0] : place[1]], second[place[2] : place[3]]
            is_content = all(len(w) > 3 and w not in frequent for w in [*ours, *theirs])
            if not is_content or difflib.SequenceMatcher(None, ours[0].lower(), theirs[0].lower()).ratio() > 0.6:
                continue
            words = dict.fromkeys(tokens_of(source))
            value = {w: table[w.lower()].get(ours[0], 0.0) + table[w.lower()].get(theirs[-1], 0.0) for w in words}
            word = max(value, key=value.get)
            if value[word] < 0.1 or len(word) < 4 or tokens_of(source).count(word) > 1:
                continue
            cases.append(Case(source, word, ' '.join(theirs), 'reference', [(second, *place[2:]), (first, *place[:2])]))
            break
    rng = np.random.default_rng(0)
    cases = [cases[i] for i in sorted(rng.permutation(len(cases))[: lines // 2])]
    used = {case.source for case in cases}
    times: Counter[str] = Counter()
    rows = [row.split() for line in SYNONYMS[to].splitlines() for row in line.split('|')]
    rest = []
    heldout = [
        (a, b) for name in ('test', 'dev') for a, b in zip(read(f'{name}.{other}'), read(f'{name}.{to}'), strict=True)
    ]
    for source, reference in heldout:
        words, target = tokens_of(source), tokens_of(reference)
        for word, usual, term in rows:
            word, term = word.replace('_', ' '), term.replace('_', ' ')
            size = len(word.split())
            there = sum(words[i : i + size] == word.split() for i in range(len(words)))
            if (
                source in used
                or there != 1
                or target.count(usual) != 1
                or times[word] >= LINES_OF_A_SYNONYM
                or term in reference
            ):
                continue
            times[word] += 1
            used.add(source)
            at = target.index(usual)
            new = [*target[:at], *term.split(), *target[at + 1 :]]
            rest.append(Case(source, word, term, 'synonym', [(new, at, at + len(term.split())), (target, at, at + 1)]))
    chosen = sorted(rng.permutation(len(rest))[: lines - len(cases)])
    return [*cases, *(rest[i] for i in chosen)], table


def stem(word: str) -> str:
    """A German word without the longest ending that leaves four letters."""
    endings = [ending for ending in ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 4]
    return word[: len(word) - len(max(endings, key=len, default=''))]


def inflected(folder: Path, table: dict[str, dict[str, float]], lines: int) -> list[tuple[str, str, list[str], str]]:
    """A source, a word of it, the forms of its translation and the references, which have another than the first."""
    read = lambda name: list(read_lines(folder / name))
    common = Counter(word for line in read('train.de.gz') for word in tokens_of(line))
    frequent = {word for word, _ in common.most_common(150)}
    by_stem = defaultdict(list)
    for word, times in common.items():
        if times > 3:
            by_stem[stem(word)].append(word)
    found = []
    used: Counter[str] = Counter()
    for name in ('test', 'dev'):
        for source, references in zip(read(f'{name}.en'), read(f'{name}.allrefs.de.tsv'), strict=True):
            words, target = tokens_of(source), tokens_of(references.partition('\t')[0])
            for word in words:
                likely = table.get(word.lower(), {})
                said = [w for w in target if w in likely and len(w) > 4 and w not in frequent and target.count(w) == 1]
                is_clear = len(word) > 3 and words.count(word) == len(said) == 1 and likely[said[0]] > 0.05
                if not is_clear or used[word.lower()] == 2:
                    continue
                forms = [w for w in by_stem[stem(said[0])] if w in likely and w[0].isupper() == said[0][0].isupper()]
                forms = sorted(forms, key=lambda w: (len(w), w))
                if forms and said[0] in forms[1:]:
                    used[word.lower()] += 1
                    found.append((source, word, forms, references))
                    break
    chosen = sorted(np.random.default_rng(0).permutation(len(found))[:lines])
    return [found[i] for i in chosen]


def find(tokens: list[str], phrase: list[str]) -> list[int]:
    size = len(phrase)
    match = lambda i: [tokens[i][:1].lower() + tokens[i][1:], *tokens[i + 1 : i + size]]
    wanted = [phrase[0][:1].lower() + phrase[0][1:], *phrase[1:]]
    return [i for i in range(len(tokens) - size + 1) if match(i) == wanted]

"""Terms of a user's own choice, in place or not: `python benchmarks/terms.py --to de`; JSON lines.

The pairs are those of the corpus `tatoeba_en_de` in the data folder. A term is a synonym that the first reference
lacks: of 150 lines, the word in which another reference differs from it (into German), or in which another English
sentence paired with the same German one does; for the rest, SYNONYMS by hand, at most six lines each. Which source word
it translates, and which word of a plain translation stands for it, say the words' probabilities in the training text
(IBM model 1, Brown et al. 1993), not the model's attention.

Of translations without and with these glossaries, one term a line, prints the share of lines that have the term; have
it once; have it in place: the nearest words left and right of it that a witness (a reference, the plain translation)
has, too, are on the same sides of the word that stands there; and of those that also have the word that the plain
translation has for it. BLEU is that of the lines without the term, and without the word that stands for it.

Into German, `inflection` is about lines whose reference has an inflected form of a word. The glossary has all forms
that the training text has, the shortest first; right is the form of any reference. `new` counts the lines whose plain
translation has no form of the word.

Then times 300 lines: plain, with a term each anywhere (`required`), and with a glossary, in turn; CPU seconds.
"""

import argparse
import difflib
import json
import os
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import seconds_in_turn

from flax_transformer import Translator
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.metrics import make_metrics

LINES, LINES_OF_A_SYNONYM, ROUNDS = 150, 6, 3
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


def inflection(translator: Translator, cases: list[tuple[str, str, list[str], str]]) -> dict[str, float]:
    plain = translator([source for source, *_ in cases])
    right = []
    is_new = []
    for (source, word, forms, references), before in zip(cases, plain, strict=True):
        tokens = tokens_of(translator(source, glossary=Glossary({word: forms})).text)
        there = [form for form in forms if find(tokens, [form])]
        right.append(len(there) == 1 and there[0] in tokens_of(references))
        is_new.append(not {*forms} & {*tokens_of(before.text)})
    new = [good for good, is_other in zip(right, is_new, strict=True) if is_other]
    return {
        'lines': len(cases),
        'form_of_a_reference': sum(right) / len(cases),
        'new': len(new),
        'form_of_a_reference_if_new': sum(new) / max(len(new), 1),
    }


def find(tokens: list[str], phrase: list[str]) -> list[int]:
    size = len(phrase)
    match = lambda i: [tokens[i][:1].lower() + tokens[i][1:], *tokens[i + 1 : i + size]]
    wanted = [phrase[0][:1].lower() + phrase[0][1:], *phrase[1:]]
    return [i for i in range(len(tokens) - size + 1) if match(i) == wanted]


def is_in_place(tokens: list[str], begin: int, end: int, witness: tuple[list[str], int, int]) -> bool:
    """Whether the nearest words on both sides that a witness has once, too, are on these sides there."""
    there, first, last = witness
    sides = {}
    for i, word in enumerate(there):
        if not first <= i < last and there.count(word) == 1 and tokens.count(word) == 1:
            sides[word] = i >= last
    left = [sides[word] for word in tokens[:begin] if word in sides]
    right = [sides[word] for word in tokens[end:] if word in sides]
    if not left and not right:
        return False
    wrong = sum(left) + len(right) - sum(right)
    return not (left and left[-1]) and (not right or right[0]) and wrong <= 0.25 * (len(left) + len(right))


def counterpart(case: Case, plain: list[str], table: dict[str, dict[str, float]]) -> int | None:
    """The word of a plain translation that stands for the source word; None: unknown."""
    usual = {' '.join(tokens[a:b]) for tokens, a, b in case.witnesses}
    for i, word in enumerate(plain):
        if word in usual:
            return i
    value = [max(table[w.lower()].get(word, 0.0) for w in case.word.split()) for word in plain]
    best = int(np.argmax(value)) if value else 0
    return best if value and value[best] > 0.03 else None


def without(tokens: list[str], begin: int | None, end: int | None) -> str:
    return ' '.join(tokens if begin is None else tokens[:begin] + tokens[end:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument(
        '--folder', type=Path, default=Path(os.environ.get('FLAX_TRANSFORMER_DATA', 'data'), 'tatoeba_en_de')
    )
    parser.add_argument('--lines', type=int, default=LINES)
    parser.add_argument('--run', default='everyday')
    parser.add_argument('--to', default='de', choices=('de', 'en'))
    parser.add_argument('--list', type=Path, help='writes every line here')
    parser.add_argument('--no-times', action='store_true')
    options = parser.parse_args()
    cases, table = cases_of(options.folder, options.to, options.lines)
    translator = Translator.from_run(options.run, target_language=options.to)
    sources = [case.source for case in cases]
    plain = translator(sources)
    by_term: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        by_term[case.word, case.term].append(i)
    found: list = [None] * len(cases)
    for (word, term), numbers in by_term.items():
        for i, translation in zip(
            numbers, translator([sources[i] for i in numbers], glossary=Glossary({word: [term]})), strict=True
        ):
            found[i] = translation
    bleu = make_metrics()['bleu']
    lines = []
    rest: dict[str, list[str]] = {'without': [], 'with': [], 'first': [], 'second': []}
    for case, before, after in zip(cases, plain, found, strict=True):
        tokens, term = tokens_of(after.text), tokens_of(case.term)
        at, usual = tokens_of(before.text), counterpart(case, tokens_of(before.text), table)
        places = find(tokens, term)
        said = find(at, term)
        witnesses = list(case.witnesses)
        if said:
            witnesses.append((at, said[0], said[0] + len(term)))
        elif usual is not None:
            witnesses.append((at, usual, usual + 1))
        kept = None if usual is None or said else at[usual]
        doubled = bool(places) and kept is not None and kept in tokens and kept not in term
        in_place = len(places) == 1 and any(is_in_place(tokens, places[0], places[0] + len(term), w) for w in witnesses)
        for tokens_, a, b in [*case.witnesses, case.witnesses[0]][:2]:
            rest['second' if len(rest['first']) > len(rest['second']) else 'first'].append(without(tokens_, a, b))
        rest['with'].append(without(tokens, *((places[0], places[0] + len(term)) if places else (None, None))))
        span = (said[0], said[0] + len(term)) if said else (usual, None if usual is None else usual + 1)
        rest['without'].append(without(at, *span))
        lines.append(
            {'source': case.source, 'word': case.word, 'term': case.term, 'kind': case.kind, 'plain': before.text,
             'found': after.text, 'times': len(places), 'in_place': in_place, 'doubled': doubled, 'said': bool(said),
             'missing': list(after.missing)}
        )  # fmt: skip
    share = lambda name: sum(map(bool, (line[name] for line in lines))) / len(lines)
    references = [rest['first'], rest['second']]
    scores = {name: bleu.corpus_score(rest[name], references).score for name in ('without', 'with')}
    record = {
        'to': options.to, 'lines': len(lines), 'of_references': sum(line['kind'] == 'reference' for line in lines),
        'plain_has': share('said'), 'has': share('times'),
        'once': sum(line['times'] == 1 for line in lines) / len(lines),
        'in_place': share('in_place'), 'doubled': share('doubled'), 'missing': share('missing'),
        'rest_bleu_without': scores['without'], 'rest_bleu_with': scores['with'],
        'signature': str(bleu.get_signature()),
    }  # fmt: skip
    if options.to == 'de':
        record['inflection'] = inflection(translator, inflected(options.folder, table, options.lines))
    print(json.dumps(record, ensure_ascii=False), flush=True)
    if options.list:
        options.list.write_text('\n'.join(json.dumps(line, ensure_ascii=False) for line in lines) + '\n')
    if options.no_times:
        return
    wanted = [[case.term] for case in cases] * 2
    every = Glossary({case.word: [case.term] for case in cases})
    some = sources * 2
    functions = {
        'none': lambda: translator(some),
        'anywhere': lambda: translator(some, required=wanted),
        'in place': lambda: translator(some, glossary=every),
    }
    seconds = seconds_in_turn(functions, ROUNDS, time.process_time)
    ratio = lambda a, b: statistics.median(x / y for x, y in zip(seconds[a], seconds[b], strict=True))
    print(
        json.dumps(
            {
                'lines': len(some),
                'seconds': seconds,
                'in place / anywhere': ratio('in place', 'anywhere'),
                'in place / none': ratio('in place', 'none'),
            }
        )
    )


if __name__ == '__main__':
    main()

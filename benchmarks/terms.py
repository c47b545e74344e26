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
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring import seconds_in_turn
from term_cases import LINES, Case, Corpus, InflectedCase, cases_of, find, inflected, tokens_of

from flax_transformer import Translator
from flax_transformer.common.files import write_whole
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.tasks.translation.metrics import make_metrics

ROUNDS = 3


def inflection(translator: Translator, cases: list[InflectedCase]) -> dict[str, float]:
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


def counterpart(case: Case, plain: list[str], corpus: Corpus) -> int | None:
    """The word of a plain translation that stands for the source word; None: unknown."""
    usual = {' '.join(tokens[begin:end]) for tokens, begin, end in case.witnesses}
    for i, word in enumerate(plain):
        if word in usual:
            return i
    value = [max(corpus.translations[w.lower()].get(word, 0.0) for w in case.word.split()) for word in plain]
    best = int(np.argmax(value)) if value else 0
    return best if value and value[best] > 0.03 else None


def without(tokens: list[str], begin: int, end: int) -> str:
    return ' '.join(tokens[:begin] + tokens[end:])


class Line(NamedTuple):
    """A line's translations without and with its term, and what became of the term."""

    case: Case
    plain: Translation
    found: Translation
    places: list[int]  # where `found` has the term
    place_in_plain: tuple[int, int] | None  # of the term, or of the word that stands for it; None: unknown
    is_said: bool  # the plain translation has the term by itself
    is_in_place: bool
    is_doubled: bool  # it has the word that the plain translation has, too

    def as_json(self) -> dict[str, Any]:
        case = {name: getattr(self.case, name) for name in ('source', 'word', 'term', 'kind')}
        texts = {'plain': self.plain.text, 'found': self.found.text, 'missing': list(self.found.missing)}
        facts = {'in_place': self.is_in_place, 'doubled': self.is_doubled, 'said': self.is_said}
        return case | texts | {'times': len(self.places)} | facts


def measured(case: Case, before: Translation, after: Translation, corpus: Corpus) -> Line:
    term, plain, found = map(tokens_of, (case.term, before.text, after.text))
    places, said = find(found, term), find(plain, term)
    usual = counterpart(case, plain, corpus)
    witnesses = list(case.witnesses)
    place_in_plain = None
    if said:
        place_in_plain = said[0], said[0] + len(term)
    elif usual is not None:
        place_in_plain = usual, usual + 1
    if place_in_plain:
        witnesses.append((plain, *place_in_plain))

    is_there_once = len(places) == 1
    in_place = is_there_once and any(is_in_place(found, places[0], places[0] + len(term), each) for each in witnesses)
    kept = None if said or usual is None else plain[usual]
    is_doubled = bool(places) and kept is not None and kept in found and kept not in term
    return Line(case, before, after, places, place_in_plain, bool(said), in_place, is_doubled)


def translated(translator: Translator, cases: Sequence[Case], corpus: Corpus) -> list[Line]:
    """All lines without and with their terms; those of the same term in one call."""
    plain = translator([case.source for case in cases])
    numbers_of = defaultdict(list)
    for number, case in enumerate(cases):
        numbers_of[case.word, case.term].append(number)

    found = {}
    for (word, term), numbers in numbers_of.items():
        translations = translator([cases[number].source for number in numbers], glossary=Glossary({word: [term]}))
        found |= zip(numbers, translations, strict=True)
    return [measured(case, plain[number], found[number], corpus) for number, case in enumerate(cases)]


def record_of(lines: Sequence[Line]) -> dict[str, Any]:
    def share(values: Iterable[object]) -> float:
        return sum(map(bool, values)) / len(lines)

    bleu = make_metrics()['bleu']
    references = [[without(*line.case.witnesses[which]) for line in lines] for which in (0, 1)]
    plain = [without(tokens_of(line.plain.text), *(line.place_in_plain or (0, 0))) for line in lines]
    found = []
    for line in lines:
        size = len(tokens_of(line.case.term))
        begin, end = (line.places[0], line.places[0] + size) if line.places else (0, 0)
        found.append(without(tokens_of(line.found.text), begin, end))
    return {
        'lines': len(lines),
        'of_references': sum(line.case.kind == 'reference' for line in lines),
        'plain_has': share(line.is_said for line in lines),
        'has': share(line.places for line in lines),
        'once': share(len(line.places) == 1 for line in lines),
        'in_place': share(line.is_in_place for line in lines),
        'doubled': share(line.is_doubled for line in lines),
        'missing': share(line.found.missing for line in lines),
        'rest_bleu_without': bleu.corpus_score(plain, references).score,
        'rest_bleu_with': bleu.corpus_score(found, references).score,
        'signature': str(bleu.get_signature()),
    }


def times(translator: Translator, cases: Sequence[Case]) -> dict[str, Any]:
    """CPU seconds of twice the lines: plain, each with its term anywhere, and with a glossary of all terms."""
    sources = [case.source for case in cases] * 2
    wanted = [[case.term] for case in cases] * 2
    every = Glossary({case.word: [case.term] for case in cases})
    functions = {
        'none': lambda: translator(sources),
        'anywhere': lambda: translator(sources, required=wanted),
        'in place': lambda: translator(sources, glossary=every),
    }
    seconds = seconds_in_turn(functions, ROUNDS, time.process_time)

    def ratio(one: str, other: str) -> float:
        return statistics.median(x / y for x, y in zip(seconds[one], seconds[other], strict=True))

    ratios = {f'in place / {name}': ratio('in place', name) for name in ('anywhere', 'none')}
    return {'lines': len(sources), 'seconds': seconds} | ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    data = Path(os.environ.get('FLAX_TRANSFORMER_DATA', 'data'))
    parser.add_argument('--folder', type=Path, default=data / 'tatoeba_en_de')
    parser.add_argument('--lines', type=int, default=LINES)
    parser.add_argument('--run', default='everyday')
    parser.add_argument('--to', default='de', choices=('de', 'en'))
    parser.add_argument('--list', type=Path, help='writes every line here')
    parser.add_argument('--no-times', action='store_true')
    options = parser.parse_args()

    corpus = Corpus(options.folder, options.to)
    cases = cases_of(corpus, options.lines)
    translator = Translator.from_run(options.run, target_language=options.to)
    lines = translated(translator, cases, corpus)
    record = {'to': options.to} | record_of(lines)
    if options.to == 'de':
        record['inflection'] = inflection(translator, inflected(corpus, options.lines))
    print(json.dumps(record, ensure_ascii=False), flush=True)
    if options.list:
        write_whole(options.list, ''.join(json.dumps(line.as_json(), ensure_ascii=False) + '\n' for line in lines))
    if not options.no_times:
        print(json.dumps(times(translator, cases)))


if __name__ == '__main__':
    main()

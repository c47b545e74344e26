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
from pathlib import Path

import numpy as np
from measuring import seconds_in_turn
from term_cases import LINES, Case, cases_of, find, inflected, tokens_of

from flax_transformer import Translator
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.metrics import make_metrics

ROUNDS = 3


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

"""What becomes of text as people type it: `python benchmarks/robust.py RUN --to de`; a table, then a JSON line.

The sentences are those of the test set of `tatoeba_en_de` in the data folder, at most 100 for each kind, drawn by a
seed. Names, codes and addresses are real ones or written by hand, unlike those of `data.robust`, which are made of
random syllables; names that the training text has are left out. A line is right if

- name, number, code, address, placeholder: it is there once, and in place: the nearest words left and right of it that
  the reference, or the translation of the clean line, has as well, are on the same sides there
- capitals, small, title, quotes, two pairs: the translation is like the reference, or like the translation of the clean
  line, both changed alike (chrF of LIKE or more); in capitals if the source is; else not
- no end, odd end: the same, and it ends with these signs
- emoji: the same, and it is there once, at the same end
- nothing to translate: it is as it was

BLEU is against the reference, changed alike; next to it is that of the clean lines' translations.
"""

import argparse
import json
import os
import random
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from term_cases import find, tokens_of
from terms import is_in_place

from flax_transformer import Translator
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.translation.metrics import make_metrics

LINES, LIKE, SEED = 100, 60, 41
SPANS = {
    'name': """\
Wojciechowski|Nguyen Thi Mai|Siobhán O'Connell|Abdelkader|Krzysztof|Papadopoulos|Zeynep Yılmaz|Jürgen Hößle|Dr. Quijano
Þórunn|Nwachukwu|Szczepański|Ferreira-Gomes|Hrafnkell|Xiomara|Tchaikovsky|Bjørn Ødegård|Mbappé|Ruanda-Urundi|Aoife
J. R. Whitcombe|Llewellyn|Fitzgibbon|Guðmundsdóttir|Oyelaran|McAllister|Vlăduț|Dvořáková|Qaanaaq|Ouagadougou|Ng
Mihály Szűcs|Djokovic|Saint-Exupéry|Zwickau|Huddersfield|Reykjanesbær|Thiruvananthapuram|Bhattacharya""",
    'code': """\
user_id|report_final.docx|--help|getElementById|/etc/passwd|README.md|ISO-9001|CVE-2024-3094|B2B|x86_64|Q3-FY25
max_length|package-lock.json|--dry-run|onClick|C:\\Windows|HTTP_PROXY|v2.14.0|A320neo|utf-8|IMG_0042.JPG|foo.bar()
@jane_doe99|#hashtag|DE89370400440532013000|978-3-16-148410-0|config.yaml|libssl.so.3|~/.bashrc|KB5034441|RTX4090""",
    'address': """\
https://github.com/torvalds/linux|www.tagesschau.de|info@example.org|https://en.wikipedia.org/wiki/Berlin
john.smith+news@mail.co.uk|http://localhost:8080/index.php?page=2&lang=de|ftp://ftp.gnu.org|support@deutsche-bahn.com
https://youtu.be/dQw4w9WgXcQ|bbc.co.uk/news|https://shop.example.com/cart#checkout|jane_doe@uni-heidelberg.de""",
    'placeholder': """\
{username}|{0}|%s|%(total)d|$1|{{ count }}|%1$s|${HOME}|:name|{first_name}|%d|[[link]]|{n, number}|%@|$2""",
}
ALONE = """\
***|12345|Wojciechowski|https://example.com/|user_id|;-)|—|!?!?|qwrtzp|3.14159|A-17|{name}|%s|🎄|🙃🙃|10:45|→|€
Ouagadougou|---|(c)|:|kjhgfd|0|#42|README.md|v1.0.3|2024-11-05|x86_64|info@example.org"""
END = re.compile(r'[.!?…]+$')
ODD = '!!', '...', ' ?!', '???', '!!!', '…', '?!', ' .'
EMOJI = ['🎄', '🙃', '😀', '👍', '❤️', '🚀', '🥳', '🇮🇹', ':-)', '🤦🏽\u200d♀️', '✔️', '🐙']
Change = Callable[[str], str]


class Case(NamedTuple):
    sources: list[str]  # clean lines, one or two
    reference: str  # that of the dirty line
    source: str  # the dirty line
    change: Change  # of the translation of the clean lines
    is_right: Callable[[str, list[str]], bool]  # given the translation, and what it should be like


def is_like(text: str, expected: list[str]) -> bool:
    chrf = make_metrics()['chrf']
    return max(chrf.sentence_score(text, [one]).score for one in expected) >= LIKE


def is_placed(span: str) -> Callable[[str, list[str]], bool]:
    phrase = tokens_of(span)

    def witness(text: str) -> tuple[list[str], int, int] | None:
        tokens = tokens_of(text)
        places = find(tokens, phrase)
        return (tokens, places[0], places[0] + len(phrase)) if len(places) == 1 else None

    def is_right(text: str, expected: list[str]) -> bool:
        own = witness(text)
        if text.count(span) != 1 or own is None:
            return False
        return any(is_in_place(*own, there) for there in map(witness, expected) if there)

    return is_right


def number(draw: random.Random) -> str:
    digits = ''.join(draw.choice('0123456789') for _ in range(draw.randint(0, 11)))
    return draw.choice([draw.choice('123456789') + digits] * 3 + [f'{draw.randint(10, 23)}:{draw.randint(10, 59)}'])


def cases_of(pairs: list[tuple[str, str]], known: set[str], count: int) -> dict[str, list[Case]]:
    draw = random.Random(SEED)
    cases: dict[str, list[Case]] = defaultdict(list)

    def shared(source: str, target: str) -> list[str]:
        words = {word for word in re.findall(r'(?<![\w-])[A-Z][a-z]{2,}(?![\w-])', source) if word.lower() not in known}
        return sorted(word for word in words if source.count(word) == target.count(word) == 1)

    def add(kind: str, pair: tuple[str, str], changes: tuple[Change, Change], is_right: Callable) -> None:
        source, target = pair
        cases[kind].append(Case([source], changes[1](target), changes[0](source), changes[1], is_right))

    same = lambda text: text
    some = lambda fits: draw.sample(fits, min(count, len(fits)))
    named = [pair for pair in pairs if shared(*pair)]
    spans = {kind: text.replace('\n', '|').split('|') for kind, text in SPANS.items()}
    spans['name'] = [name for name in spans['name'] if not {*tokens_of(name)} & known]
    for kind in (*spans, 'number'):
        for i, pair in enumerate(some(named)):
            span = number(draw) if kind == 'number' else spans[kind][i % len(spans[kind])]
            word = draw.choice(shared(*pair))
            change = lambda text, word=word, span=span: text.replace(word, span)
            if kind != 'name' and i % 2:
                change = lambda text, span=span: END.sub('', text) + f' ({span})' + ''.join(END.findall(text))
            add(kind, pair, (change, change), is_placed(span))

    ended = [pair for pair in pairs if all(map(END.search, pair))]
    cased = lambda text, like: text.isupper() and is_like(text, like)
    uncased = lambda text, like: not text.isupper() and is_like(text, like)
    for pair in some(pairs):
        add('capitals', pair, (str.upper, str.upper), cased)
        add('small', pair, (str.lower, same), uncased)
        add('title', pair, (lambda text: re.sub(r"(?<![\w'’])\w", lambda m: m[0].upper(), text), same), uncased)
    for pair in some([pair for pair in pairs if re.search('[\'’"„“]', pair[0])]):
        quotes = draw.choice(['“”', '„“', '«»'])
        change = lambda text, quotes=quotes: re.sub(
            '["„“]([^"„“”]+)["“”]', rf'{quotes[0]}\1{quotes[1]}', text.replace("'", '’')
        )
        add('quotes', pair, (change, same), uncased)
    for pair in some(ended):
        odd = draw.choice(ODD)
        for kind, end in (('no end', ''), ('odd end', odd)):
            change = lambda text, end=end: END.sub('', text) + end
            has = lambda text, like, end=end: END.sub('', text.rstrip()).rstrip() + end == text and is_like(text, like)
            add(kind, pair, (change, change), has)
    for i, pair in enumerate(some(pairs)):
        emoji = EMOJI[i % len(EMOJI)]
        is_first = i % 3 == 0
        change = lambda text, emoji=emoji, first=is_first: f'{emoji} {text}' if first else f'{text} {emoji}'
        end = str.startswith if is_first else str.endswith
        has = lambda text, like, emoji=emoji, end=end: (
            text.count(emoji) == 1 and end(text, emoji) and is_like(text, like)
        )
        add('emoji', pair, (change, change), has)
    for one, two in zip(some(ended), some(ended), strict=True):
        line, reference = (f'{a} {b}' for a, b in zip(one, two, strict=True))
        cases['two pairs'].append(Case([one[0], two[0]], reference, line, same, uncased))
    for line in ALONE.replace('\n', '|').split('|')[:count]:
        cases['nothing to translate'].append(Case([], line, line, same, lambda text, _, line=line: text == line))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('run')
    parser.add_argument(
        '--folder', type=Path, default=Path(os.environ.get('FLAX_TRANSFORMER_DATA', 'data'), 'tatoeba_en_de')
    )
    parser.add_argument('--to', choices=('de', 'en'), default='de')
    parser.add_argument('--literals', choices=('kept', 'localized', 'translated', 'ignored'), default='kept')
    parser.add_argument('--lines', type=int, default=LINES)
    parser.add_argument('--list', type=Path, help='writes every line here')
    options = parser.parse_args()

    own = 'en' if options.to == 'de' else 'de'
    read = lambda name: list(read_lines(options.folder / name))
    known = {token for language in (own, options.to) for token in tokens_of(' '.join(read(f'train.{language}.gz')))}
    pairs = list(zip(read(f'test.{own}'), read(f'test.{options.to}'), strict=True))
    cases = cases_of(pairs, known, options.lines)

    translator = Translator.from_run(options.run, literals=options.literals)
    if translator.tokenizer.languages:
        fields = {'source_language': own, 'target_language': options.to, 'literals': options.literals}
        translator = Translator.from_run(options.run, **fields)
    every = [case for some in cases.values() for case in some]
    lines = list(dict.fromkeys(line for case in every for line in (case.source, *case.sources)))
    texts = dict(zip(lines, (found.text for found in translator(lines)), strict=True))

    bleu = make_metrics()['bleu']
    record, listed = {}, []
    print(f'{"kind":22}{"lines":>6}{"right":>8}{"BLEU":>8}{"clean":>8}')
    for kind, some in cases.items():
        right, plain = [], []
        for case in some:
            clean = ' '.join(texts[line] for line in case.sources)
            plain.append(case.change(clean))
            right.append(case.is_right(texts[case.source], [case.reference, plain[-1]]))
            listed.append({'kind': kind, 'right': right[-1], 'source': case.source, 'text': texts[case.source],
                           'clean': clean, 'reference': case.reference})  # fmt: skip
        score = lambda found, some=some: bleu.corpus_score(found, [[case.reference for case in some]]).score
        record[kind] = sum(right) / len(some)
        scores = (score([texts[case.source] for case in some]), score(plain)) if some[0].sources else ()
        print(f'{kind:22}{len(some):6}{record[kind]:8.0%}' + ''.join(f'{value:8.1f}' for value in scores))
    print(json.dumps({'to': options.to, 'literals': options.literals, 'lines': len(every), 'right': record}))
    if options.list:
        options.list.write_text(''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in listed), 'utf-8')


if __name__ == '__main__':
    main()

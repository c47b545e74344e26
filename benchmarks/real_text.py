"""What becomes of 200 lines as people paste them: twenty kinds, half English and half German.

    python benchmarks/real_text.py everyday [--output translations.tsv] [--set literals=translated]

Each line of `real_text.tsv` has a language, a kind, a text, and what must be in the translation exactly once, separated
by `¦`. Counted per kind: lines in which all of it is there once; in which it is also apart from words and not after the
last full stop, unless it was; and whether capitals, tabs and bars are as in the source.
"""

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from flax_transformer import Translator

LINES = Path(__file__).with_suffix('.tsv')
PAIRS = {'en': 'de', 'de': 'en'}


def read_lines() -> list[tuple[str, str, str, list[str]]]:
    rows = [line.split('\t') for line in LINES.read_text('utf-8').splitlines()]
    return [(row[0], row[1], '\t'.join(row[2:-1]), [part for part in row[-1].split('¦') if part]) for row in rows]


def is_once(text: str, wanted: list[str]) -> bool:
    """Whether each part is there once; 12 is not in 120 or 2.12."""

    def count(part: str) -> int:
        before = r'(?<!\d)(?<!\d[.,])' if part[0].isdigit() else ''
        after = r'(?!\d|[.,]\d)' if part[-1].isdigit() else ''
        return len(re.findall(before + re.escape(part) + after, text))

    return all(count(part) == 1 for part in wanted)


def is_in_place(source: str, text: str, wanted: list[str]) -> bool:
    """Whether nothing that is wanted is glued to a word, or after the last full stop, unlike before."""
    for part in wanted:
        before, _, after = source.partition(part)
        new_before, _, new_after = text.partition(part)
        glued = new_before[-1:].isalnum() and not before[-1:].isalnum()
        glued |= new_after[:1].isalnum() and not after[:1].isalnum()
        is_sign = not after and not re.search(r'\w', part)  # an emoji after a sentence
        left = bool(re.search(r'[.!?]\s*$', new_before)) and not re.search(r'(^|[.!?:])\s*$', before) and not is_sign
        if glued or left:
            return False
    return True


def has_same_form(source: str, text: str) -> bool:
    same = all(source.count(sign) == text.count(sign) for sign in '\t|')
    return same and (source.isupper() == text.isupper() or not re.search(r'[^\W\d_]', source))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('run')
    parser.add_argument('--every', type=int, default=1, help='of so many lines, one')
    parser.add_argument('--output', type=Path)
    parser.add_argument('--set', nargs='*', default=[], help='fields of decoding, such as literals=translated')
    options = parser.parse_args()
    fields = dict(field.split('=') for field in options.set)

    rows = read_lines()[:: options.every]
    texts = {}
    for source, target in PAIRS.items():
        translator = Translator.from_run(options.run, source_language=source, target_language=target, **fields)
        mine = [row[2] for row in rows if row[0] == source]
        texts |= dict(zip(mine, map(str, translator(mine)), strict=True))

    counts = {kind: Counter() for _, kind, _, _ in rows}
    for _, kind, line, wanted in rows:
        text = texts[line]
        once = is_once(text, wanted)
        verdicts = {
            'once': once,
            'in place': once and is_in_place(line, text, wanted),
            'form': has_same_form(line, text),
        }
        counts[kind].update(name for name, good in verdicts.items() if good)
        counts[kind]['all'] += all(verdicts.values())
    names = ['once', 'in place', 'form', 'all']
    print(f'{"lines":12}' + ''.join(f'{name:>10}' for name in names))
    for kind, count in counts.items():
        print(f'{kind:12}' + ''.join(f'{count[name]:10}' for name in names))
    totals = {name: sum(count[name] for count in counts.values()) for name in names}
    print(json.dumps({'lines': len(rows), **totals}))
    if options.output:
        options.output.write_text(''.join(f'{line}\n\t{texts[line]}\n' for _, _, line, _ in rows), encoding='utf-8')


if __name__ == '__main__':
    main()

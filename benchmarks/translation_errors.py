"""Where the translations of Tatoeba's test set are good and where not: `python benchmarks/translation_errors.py`.

Prints two tables, for the translations that benchmarks/scores/tatoeba_en_de.tsv keeps: BLEU (one reference, 13a) by the
number of English words of a sentence, and by how often the training text has its rarest word, ignoring case. Each cell
is the mean over seeds.
"""

import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus

FILE = Path(__file__).parent / 'scores' / 'tatoeba_en_de.tsv'
LENGTHS = (4, 6, 8, 12)  # the upper ends of all groups but the last
COUNTS = (0, 2, 10, 100)


def words(line: str) -> list[str]:
    return re.findall(r"[\w'-]+", line.lower())


def table(
    lines: Sequence[Sequence[str]], value: Callable[[str], int], ends: Sequence[int], what: str, unit: str
) -> str:
    """BLEU and the share of exact matches, by a number that each source has."""
    rows = [f'| {what} | sentences | BLEU | same as the reference |', '| --- | --- | --- | --- |']
    for low, high in zip((-1, *ends), (*ends, sys.maxsize), strict=True):
        group = [line for line in lines if low < value(line[0]) <= high]
        if not group:
            continue
        name = f'more than {low}' if high == sys.maxsize else f'{low + 1} to {high}' if low >= 0 else f'up to {high}'
        _, references, *seeds = zip(*group, strict=True)
        bleu = statistics.fmean(BLEU().corpus_score(seed, [references]).score for seed in seeds)
        same = statistics.fmean(a == b for seed in seeds for a, b in zip(references, seed, strict=True))
        rows.append(f'| {name}{unit} | {len(group)} | {bleu:.1f} | {same:.0%} |')
    return '\n'.join(rows)


def main() -> None:
    lines = [line.split('\t') for line in FILE.read_text(encoding='utf-8').split('\n')[2:-1]]
    data = DataConfig(train='tatoeba_en_de/train.{lang}')
    counts = Counter(word for line in read_corpus(data.train, data).sources for word in words(line))
    rarest = lambda source: min((counts[word] for word in words(source)), default=0)
    print(table(lines, lambda source: len(words(source)), LENGTHS, 'English words', ''), end='\n\n')
    print(table(lines, rarest, COUNTS, 'the rarest word is in the training text', ' times'))


if __name__ == '__main__':
    main()

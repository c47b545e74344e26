"""Where the translations of Tatoeba's test set are good and where not: `python -m benchmarks.translation_errors`.

Of seed 1 in benchmarks/scores/tatoeba_en_de.tsv, it prints how many of the first 100 have an error of each kind, as the
labels in tatoeba_en_de_errors.tsv say; then BLEU (one reference, 13a) by how often the training text has the rarest
word of a sentence, ignoring case, and by its number of English words.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus

SCORES = Path(__file__).parent / 'scores'
SEED = 'seed 1'  # the labels are of its translations
LENGTHS = (4, 6, 8, 12)  # the upper ends of all groups but the last
COUNTS = (0, 2, 10, 100)
Triple = tuple[str, str, str]  # source, reference, output


def words(line: str) -> list[str]:
    return re.findall(r"[\w'-]+", line.lower())


def kinds() -> str:
    lines = (SCORES / 'tatoeba_en_de_errors.tsv').read_text(encoding='utf-8').splitlines()[1:]
    counts = Counter(line.split('\t')[1] for line in lines)
    rows = ['| kind | of 100 |', '| --- | --- |', *(f'| {kind} | {count} |' for kind, count in counts.most_common())]
    return '\n'.join(rows)


def table(triples: Sequence[Triple], value: Callable[[str], int], ends: Sequence[int], what: str, unit: str) -> str:
    """BLEU and the share of exact matches, by a number that each source has."""
    rows = [f'| {what} | sentences | BLEU | same as the reference |', '| --- | --- | --- | --- |']
    for low, high in zip((-1, *ends), (*ends, sys.maxsize), strict=True):
        group = [triple for triple in triples if low < value(triple[0]) <= high]
        name = f'more than {low}' if high == sys.maxsize else f'{low + 1} to {high}'
        name = f'{high}' if low + 1 == high else name
        _, references, outputs = zip(*group, strict=True)
        bleu = BLEU().corpus_score(outputs, [references]).score
        same = sum(map(str.__eq__, references, outputs)) / len(group)
        rows.append(f'| {name}{unit} | {len(group)} | {bleu:.1f} | {same:.0%} |')
    return '\n'.join(rows)


def main() -> None:
    lines = (SCORES / 'tatoeba_en_de.tsv').read_text(encoding='utf-8').split('\n')[1:-1]  # after the attribution
    names, *rows = (line.split('\t') for line in lines)
    triples = [tuple(row[names.index(name)] for name in ('en', 'de', SEED)) for row in rows]
    data = DataConfig(train='tatoeba_en_de/train.{lang}')
    counts = Counter(word for line in read_corpus(data.train, data).sources for word in words(line))
    rarest = lambda source: min((counts[word] for word in words(source)), default=0)
    print(kinds(), end='\n\n')
    print(table(triples, rarest, COUNTS, 'the rarest word is in the training text', ' times'), end='\n\n')
    print(table(triples, lambda source: len(words(source)), LENGTHS, 'English words', ''))


if __name__ == '__main__':
    try:
        main()
    except UserError as error:  # the corpus is not there
        sys.exit(f'translation_errors: {error}')

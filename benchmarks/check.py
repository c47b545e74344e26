"""How fast a corpus is checked, and in how much memory: one line of JSON. `python benchmarks/check.py [--pairs N]`.

The text is made: words of a vocabulary of 50,000 a side with Zipf's frequencies, 28 words a side on average (as WMT has
tokens), a number in one line of five. The same N gives the same text.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from flax_transformer.config import Config, DataConfig
from flax_transformer.data.audit.checking import audit
from flax_transformer.data.audit.config import Vocabulary

LETTERS = {'en': 'eeeeeettttaaaoooiiinnnsshhrrddlucmfwygpbvk', 'de': 'eeeeeeennnniiisssrrraattdhulcgmobwfkzpväüö'}


def words_of(language: str, rng: np.random.Generator, count: int = 50_000) -> list[str]:
    letters = np.array(list(LETTERS[language]))
    lengths = rng.poisson(4 if language == 'en' else 5, count) + 2
    return [''.join(rng.choice(letters, length)) for length in lengths]


def write_corpus(folder: Path, pairs: int) -> None:
    rng = np.random.default_rng(0)
    vocabulary = {language: np.array(words_of(language, rng)) for language in LETTERS}
    shares = 1 / np.arange(1, 50_001)
    cumulated = np.cumsum(shares / shares.sum())
    files = {language: (folder / f'train.{language}').open('w', encoding='utf-8') for language in LETTERS}
    for first in range(0, pairs, 10_000):
        count = min(10_000, pairs - first)
        sizes = np.clip(rng.gamma(2.5, 28 / 2.5, count).astype(int), 1, 120)
        numbers = rng.integers(0, 5, count)
        for language, file in files.items():
            drawn = vocabulary[language][np.searchsorted(cumulated, rng.random(sizes.sum() * 2)).clip(0, 49_999)]
            begin = 0
            for i, size in enumerate(sizes):
                size = max(1, int(size * (1 if language == 'en' else 0.95)))
                line = ' '.join(drawn[begin : begin + size])
                begin += size
                file.write(f'{line.capitalize()}{f" {first + i}" if not numbers[i] else ""}.\n')
    for file in files.values():
        file.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--pairs', type=int, default=200_000)
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--profile', action='store_true', help='print the functions that take the most time')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), arguments.pairs)
        config = Config(data=DataConfig(train='train.{lang}', validation='', test='', root=folder))
        profile = cProfile.Profile()
        if arguments.profile:
            profile.enable()
        begin = time.perf_counter()
        vocabulary = Vocabulary(config.model.vocab_size, config.tokenizer)
        report = audit(config.data, config.check, vocabulary, processes=arguments.processes)
        seconds = time.perf_counter() - begin
        profile.disable()
        if arguments.profile:
            pstats.Stats(profile).sort_stats('cumtime').print_stats(45)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    result = {
        'pairs': arguments.pairs,
        'processes': arguments.processes,
        'cores': os.cpu_count(),
        'pairs_per_second': round(arguments.pairs / seconds),
        'seconds': round(seconds, 1),
        'largest_process_MiB': peak // 1024,
        'found': {finding.kind: finding.count for finding in report.findings},
    }
    print(json.dumps(result))


if __name__ == '__main__':
    main()

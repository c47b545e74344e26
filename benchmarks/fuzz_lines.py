"""N random lines in, N lines out: `python benchmarks/fuzz_lines.py [LINES] [SEED]` prints one line of JSON.

Lines of words, control characters, emoji, invalid UTF-8, no spaces, one in 10,000 of 50,000 characters; a tiny model
that has learned nothing. Ends with a traceback at the first line that is lost, broken or wrongly flagged.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / 'tests'))

from random_lines import check_lines, random_line, tiny_translator


def main(num_lines: int = 1_000_000, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    translator = tiny_translator()
    counts: Counter = Counter()
    started = time.perf_counter()
    while counts['lines'] < num_lines:
        lines = [random_line(rng) for _ in range(min(10_000, num_lines - counts['lines']))]
        lines[rng.integers(len(lines))] = b'word ' * 10_000 if rng.integers(2) else b'y' * 50_000
        counts += check_lines(translator, lines)
    seconds = round(time.perf_counter() - started, 1)
    record = {'benchmark': 'fuzz_lines', 'seed': seed, **counts, 'lost_or_broken': 0, 'seconds': seconds}
    print(json.dumps(record | {'compilations': translator.runner.num_compilations}))


if __name__ == '__main__':
    main(*map(int, sys.argv[1:]))

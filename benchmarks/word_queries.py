"""How long an analogy takes over all words: `python benchmarks/word_queries.py [FILE]`; lines of JSON.

Times of `king - man + woman`, 3CosAdd and 3CosMul, over all words of FILE (word2vec's binary format; by default 30,000
random vectors of 100 values): the median of 200 calls in a process that has made one before, and CPU time per call.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from measuring import seconds_in_turn

from flax_transformer.tasks.embeddings.vectors import WordVectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?', type=Path)
    parser.add_argument('--words', nargs=3, default=('man', 'woman', 'king'), metavar=('A', 'B', 'C'))
    parser.add_argument('--calls', type=int, default=200)
    options = parser.parse_args()
    if options.file is None:
        matrix = np.random.default_rng(0).standard_normal((30_000, 100)).astype(np.float32)
        vectors = WordVectors([*options.words, *(f'word{i}' for i in range(30_000 - 3))], matrix)
    else:
        vectors = WordVectors.load(options.file, 'binary')
    for method in ('add', 'mul'):
        ask = {method: lambda method=method: vectors.analogy(*options.words, method=method)}
        began = time.process_time()
        seconds = seconds_in_turn(ask, options.calls)[method]
        cpu = (time.process_time() - began) / (options.calls + 1)
        found = {'words': len(vectors), 'method': method, 'ms': 1e3 * statistics.median(seconds), 'cpu_ms': 1e3 * cpu}
        print(json.dumps(found), flush=True)


if __name__ == '__main__':
    main()

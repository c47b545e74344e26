"""How fast a corpus is checked, and in how much memory: one line of JSON. `python benchmarks/check.py [--pairs N]`.

The text is generated: 28 words a side on average (as WMT has tokens), a number in one line of five.
`python -m cProfile -s cumtime benchmarks/check.py` says where the time goes.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

from generated_text import config, write_corpus

from flax_transformer.data.audit.checking import audit
from flax_transformer.data.audit.config import Vocabulary


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--pairs', type=int, default=200_000)
    parser.add_argument('--processes', type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), arguments.pairs, words=23.4, number_every=5)
        settings = config(Path(folder), vocab_size=8000)
        begin = time.perf_counter()
        vocabulary = Vocabulary(settings.model.vocab_size, settings.tokenizer)
        report = audit(settings.data, settings.check, vocabulary, processes=arguments.processes)
        seconds = time.perf_counter() - begin
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

"""Our decoding and its peers', interleaved.

`python benchmarks/decode_peers.py tiny|base [--cells 1x1 1x4 32x1 32x4] [--rounds 5] [--torch PYTHON]` prints one line
of JSON.

A cell is sentences x beam; a batch is divided over the cores as a Translator does it, or as CTranslate2's workers do.
Every translator is a process of its own (`decode_worker.py`) that lives throughout; in each round each does each cell
once, one after the other. Given are the medians of target tokens a second, and our ratio to each peer as [least,
median, largest] over the rounds; the seconds from the start of a process to the end of its first translation, one
process after the other; and the memory that it took in the end.

`--torch` is an interpreter with torch and transformers, for `huggingface`; the extra ctranslate2 is wanted in ours. A
peer whose packages are not installed is skipped, and named.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from measuring import Worker, missing

WORKER = Path(__file__).with_name('decode_worker.py')
PACKAGES = {
    'ours': (),
    'ours_bfloat16': (),
    'ours_int8': (),
    'ctranslate2': ('ctranslate2',),
    'ctranslate2_int8': ('ctranslate2',),
    'ctranslate2_int8_workers': ('ctranslate2',),
    'huggingface': ('torch', 'transformers'),
    'huggingface_static': ('torch', 'transformers'),  # only if asked for: it takes minutes to compile
}
# What makes each fast here: with MKL and two threads CTranslate2 falls to a seventh in float32. In int8 it
# depends on the model and the cell whether one batch by all threads or one for each is faster.
ALL_THREADS = {'CT2_USE_MKL': '0', 'OMP_NUM_THREADS': str(os.cpu_count())}
ENVIRONMENT = {
    'ctranslate2': ALL_THREADS,
    'ctranslate2_int8': ALL_THREADS,
    'ctranslate2_int8_workers': {'MKL_NUM_THREADS': '1', 'OMP_NUM_THREADS': '1'},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('size', choices=['tiny', 'base'])
    parser.add_argument('--cells', nargs='+', default=['1x1', '1x4', '32x1', '32x4'])
    parser.add_argument('--rounds', type=int, default=5)
    systems = [name for name in PACKAGES if name not in ('ours_bfloat16', 'huggingface_static')]
    parser.add_argument('--systems', nargs='+', default=systems, choices=PACKAGES)
    parser.add_argument('--torch', metavar='PYTHON', default=sys.executable)
    options = parser.parse_args()
    cells = [cell.replace('x', ' ') for cell in options.cells]
    workers, skipped = {}, {}
    for name in options.systems:
        packages = PACKAGES[name]
        python = options.torch if 'torch' in packages else sys.executable
        if lacking := missing(python, *packages):
            skipped[name] = lacking
            continue
        started = {'STARTED': str(time.time())}
        workers[name] = Worker(python, str(WORKER), name, options.size, **ENVIRONMENT.get(name, {}), **started)
        workers[name].ask(cells[0])  # before the next one starts
    for cell in cells:
        for worker in workers.values():
            worker.ask(cell)  # compiles
    found = {(name, cell): [] for cell in cells for name in workers}
    for _ in range(options.rounds):
        for cell in cells:
            for name, worker in workers.items():
                found[name, cell].append(worker.ask(cell))
    record = {'benchmark': 'decode_peers', 'size': options.size, 'rounds': options.rounds, 'skipped': skipped}
    record['cells'] = {}
    for name, cell in zip(options.cells, cells, strict=True):
        rates = {worker: [answer['tokens_per_second'] for answer in found[worker, cell]] for worker in workers}
        medians = {worker: round(statistics.median(each)) for worker, each in rates.items()}
        record['cells'][name] = {
            'tokens_per_second': medians,
            'ratios': ratios(rates),
            'best_to_best_peer': best_to_best(rates),
        }
    last = {name: found[name, cells[-1]][-1] for name in workers}
    record['first_seconds'] = {name: round(one['first_seconds'], 2) for name, one in last.items()}
    record['mib'] = {name: one['mib'] for name, one in last.items()}
    print(json.dumps(record))
    for worker in workers.values():
        worker.close()


def ratios(rates: dict[str, list[float]]) -> dict[str, list[float]]:
    """Returns the least, median and largest ratio of each of ours to each peer, over the rounds."""
    found = {}
    for ours in (name for name in rates if name.startswith('ours')):
        for peer in (name for name in rates if not name.startswith('ours')):
            pairs = [a / b for a, b in zip(rates[ours], rates[peer], strict=True)]
            found[f'{ours} to {peer}'] = [round(x, 2) for x in (min(pairs), statistics.median(pairs), max(pairs))]
    return found


def best_to_best(rates: dict[str, list[float]]) -> list[float] | None:
    """Returns the ratios of the fastest of ours in each round to the fastest peer, as above; None without peers."""
    own = {name: each for name, each in rates.items() if name.startswith('ours')}
    peers = {name: each for name, each in rates.items() if name not in own}
    if not own or not peers:
        return None
    fastest = {'ours': [max(each) for each in zip(*own.values(), strict=True)]}
    fastest['peer'] = [max(each) for each in zip(*peers.values(), strict=True)]
    return ratios(fastest)['ours to peer']


if __name__ == '__main__':
    main()

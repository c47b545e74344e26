"""Our decoding beside its peers, interleaved: `python benchmarks/decode_peers.py tiny|base [--cells 1x1,1x4,32x1,32x4]
[--rounds 5] [--peer NAME=PYTHON[:FILE]] ...`; one line of JSON.

A cell is sentences x beam. Every translator is a process of its own (`decode_worker.py`) that lives throughout; in each
round each does each cell once, one after the other. Given are the medians of target tokens a second, and our ratio to
each peer as [least, median, largest] over the rounds; the seconds from the start of a process to the end of its first
translation, one process after the other; and the memory that it took in the end.

`huggingface` wants an interpreter with torch and transformers; `ctranslate2` and `ctranslate2_int8` run in ours, with
the extra ctranslate2, and `ours_int8` without; others come from a FILE of adapters.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORKER = Path(__file__).with_name('decode_worker.py')
# What makes each fast here: with MKL and two threads CTranslate2 falls to a seventh in float32.
ENVIRONMENT = {
    'ctranslate2': {'CT2_USE_MKL': '0', 'OMP_NUM_THREADS': str(os.cpu_count())},
    'ctranslate2_int8': {'MKL_NUM_THREADS': '1', 'OMP_NUM_THREADS': '1'},
}


class Worker:
    def __init__(self, name: str, where: str, size: str) -> None:
        python, _, file = where.partition(':')
        command = [python or sys.executable, str(WORKER), name, size, *([file] if file else [])]
        environment = os.environ | ENVIRONMENT.get(name, {}) | {'STARTED': str(time.time())}
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'stderr': subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, env=environment, **pipes)

    def measure(self, rows: int, beam: int) -> dict[str, float]:
        self.process.stdin.write(f'{rows} {beam}\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f'{self.process.args} ended: run it by hand to see why')
        return json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('size', choices=['tiny', 'base'])
    parser.add_argument('--cells', default='1x1,1x4,32x1,32x4')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--peer', action='append', default=[])
    options = parser.parse_args()
    cells = [tuple(map(int, cell.split('x'))) for cell in options.cells.split(',')]
    peers = dict(peer.partition('=')[::2] for peer in options.peer)
    workers = {}
    for name, where in ({'ours': ''} | peers).items():
        workers[name] = Worker(name, where, options.size)
        workers[name].measure(*cells[0])  # before the next one starts
    found = {(name, cell): [] for cell in cells for name in workers}
    for cell in cells:
        for worker in workers.values():
            worker.measure(*cell)  # compiles
    for _ in range(options.rounds):
        for cell in cells:
            for name, worker in workers.items():
                found[name, cell].append(worker.measure(*cell))
    rate = lambda name, cell: [record['tokens_per_second'] for record in found[name, cell]]
    record = {'benchmark': 'decode_peers', 'size': options.size, 'rounds': options.rounds, 'cells': {}}
    for cell in cells:
        rates = {name: round(statistics.median(rate(name, cell))) for name in workers}
        ratios = {}
        for own in (name for name in workers if name.startswith('ours')):
            for name in (name for name in workers if not name.startswith('ours')):
                pairs = [ours / theirs for ours, theirs in zip(rate(own, cell), rate(name, cell), strict=True)]
                ratios[f'{own} to {name}'] = [round(x, 2) for x in (min(pairs), statistics.median(pairs), max(pairs))]
        record['cells']['x'.join(map(str, cell))] = {'tokens_per_second': rates, 'ratios': ratios}
    last = {name: found[name, cells[-1]][-1] for name in workers}
    record['first_seconds'] = {name: round(one['first_seconds'], 2) for name, one in last.items()}
    record['mib'] = {name: one['mib'] for name, one in last.items()}
    print(json.dumps(record))
    for worker in workers.values():
        worker.process.stdin.close()
        worker.process.wait()


if __name__ == '__main__':
    main()

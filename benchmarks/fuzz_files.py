"""Damages the files of each reader at random: `python benchmarks/fuzz_files.py [--mutations 10000] [--reader NAME]`.

Prints one line of JSON for each reader: how many damaged folders were read all the same, how many were refused by a
sentence, and how many faults, each printed to standard error: a traceback, the death of the process, more than
--seconds, more than --megabytes of memory above what it began with, or a line of a file outside the folder.

Each reader works in forks of this process, which has imported everything and touched no device, --batch folders in
each. What a fork may allocate in all is limited to 1.5 GB above what it began with.
"""

import argparse
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import IO, Any

from measuring import in_fork

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')
os.environ.setdefault('JAX_ENABLE_COMPILATION_CACHE', 'false')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
sys.path.insert(0, str(Path(__file__).parents[1] / 'tests'))

from damage import SECRET, damage, make_outside
from strange_files import READERS, Reader, is_refusal

MODULES = (
    'flax_transformer.engine.runs.checkpoints',
    'flax_transformer.engine.runs.learning_curves',
    'flax_transformer.interop.export_loader',
    'flax_transformer.huggingface.folder',
    'flax_transformer.tasks.translation.loading',
    'flax_transformer.tasks.translation.task',
    'flax_transformer.tasks.api',
    'safetensors.numpy',
)
ADDRESS_SPACE = 3 << 29


def fuzz(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What became of the damaged folders of a reader."""
    reader, sound = READERS[name], folder / 'sound'
    make_outside(folder / 'outside')
    in_fork(reader.make, sound)
    began = time.monotonic()
    results, faults = Counter(), []
    done = options.first
    most = 0
    while done < options.first + options.mutations:
        last = min(done + options.batch, options.first + options.mutations)
        for number, how, result, text, megabytes in batch(name, reader, folder, range(done, last), options):
            kind = result.partition(':')[0]
            results[kind] += 1
            most = max(most, megabytes)
            if kind not in ('read', 'refused'):
                faults.append({'number': number, 'damage': how, 'result': result, 'text': text[-3000:]})
                print(json.dumps(faults[-1]), file=sys.stderr, flush=True)
            done = number + 1
    return {
        'reader': name,
        'seed': options.seed,
        'mutations': sum(results.values()),
        **results,
        'faults': len(faults),
        'most_megabytes': most,
        'seconds': round(time.monotonic() - began, 1),
    }


def batch(name: str, reader: Reader, folder: Path, numbers: range, options: argparse.Namespace) -> Any:
    """Yields (number, damage, result, output, megabytes) of some damaged folders, up to the death of the fork."""
    read, write = os.pipe()
    log = folder / 'log'
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(read)
            with os.fdopen(write, 'w') as answers:
                work(name, reader, folder, numbers, options, answers, log)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    current = numbers.start, 'before the first'
    with os.fdopen(read) as answers:
        for line in answers:
            answer = json.loads(line)
            if len(answer) == 2:
                current = tuple(answer)
            else:
                yield (*current, *answer)
                current = current[0] + 1, 'after the last'
    _, status = os.waitpid(pid, 0)
    if status:
        died = f'died of signal {os.WTERMSIG(status)}' if os.WIFSIGNALED(status) else f'died with {status}'
        result = 'hang: more than the seconds' if os.WTERMSIG(status) == signal.SIGALRM else f'death: {died}'
        yield (*current, result, log.read_text(errors='replace'), 0)


def work(
    name: str, reader: Reader, folder: Path, numbers: range, options: argparse.Namespace, answers: IO[str], log: Path
) -> None:
    here = folder / 'here'
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors='backslashreplace')  # as the commands do
    importlib.import_module('flax_transformer.cli.process').drop_late_errors()  # so do they
    if reader.needs_jax:
        import jax

        jax.devices()
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (memory('VmSize') + ADDRESS_SPACE, limit))
    for number in numbers:
        rng = random.Random(f'{options.seed} {name} {number}')
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(folder / 'sound', here)
        how = damage(here, folder / 'outside', rng)
        reader.prepare(here, rng)
        print(json.dumps([number, how]), file=answers, flush=True)
        Path('/proc/self/clear_refs').write_text('5')  # the peak starts anew
        before = memory('VmRSS')
        with log.open('w') as opened:
            os.dup2(opened.fileno(), 1)
            os.dup2(opened.fileno(), 2)
        signal.alarm(options.seconds)
        result = 'read'
        try:
            reader.read(here)
        except BaseException as error:
            if is_refusal(error):
                result = 'refused'
                print(error)
            else:
                result = f'traceback: {type(error).__name__}: {str(error)[:200]}'
                traceback.print_exc()
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        text = log.read_text(errors='replace')
        megabytes = (memory('VmHWM') - before) >> 20
        if megabytes > options.megabytes:
            result = f'memory: {megabytes} MB'
        elif SECRET in text:
            result = 'secret'
        elif 'Traceback' in text and result in ('read', 'refused'):
            result = 'traceback: of another thread'
        print(json.dumps([result, text[-5000:], megabytes]), file=answers, flush=True)


def memory(name: str) -> int:
    """Bytes of this process: VmSize, VmRSS, VmHWM."""
    return int(re.search(rf'{name}:\s+(\d+) kB', Path('/proc/self/status').read_text())[1]) << 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--mutations', type=int, default=10_000)
    parser.add_argument('--reader', choices=tuple(READERS), action='append', help='may be repeated; default: all')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--first', type=int, default=0, help='the number of the first mutation')
    parser.add_argument('--seconds', type=int, default=30)
    parser.add_argument('--megabytes', type=int, default=1024)
    parser.add_argument('--batch', type=int, default=100)
    options = parser.parse_args()
    for module in MODULES:
        importlib.import_module(module)
    found = 0
    for name in options.reader or READERS:
        with tempfile.TemporaryDirectory(dir='/dev/shm' if Path('/dev/shm').is_dir() else None) as folder:
            record = fuzz(name, options, Path(folder))
        print(json.dumps(record), flush=True)
        found += record['faults']
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())

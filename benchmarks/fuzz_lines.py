"""N random lines in, N lines out: `python benchmarks/fuzz_lines.py [LINES] [SEED]` prints one line of JSON.

Lines of words, control characters, emoji, invalid UTF-8, no spaces, one in 20,000 of 50,000 characters; objects of JSON
Lines with any other fields. A tiny model that has learned nothing translates them, in this process and by the command
as a process: through pipes in pieces of any size, in files, killed and resumed, in shards. Ends with a traceback at the
first line that is lost, broken or wrongly flagged; its files stay in the folder that is named at the start.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / 'tests'))

from random_lines import check_lines, random_line, tiny_run, tiny_translator
from random_records import check_record, random_bad_record, random_record

ROOT = Path(__file__).parents[1]
CHUNK = 20_000  # most lines that each way is given in turn
SAMPLE = 200  # lines that are also translated in this process
ENVIRONMENT = {**os.environ, 'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(ROOT)}

BOM = b'\xef\xbb\xbf'
BLANKS = re.compile(r'\A[\ufeff\s]|\t|[.!?:;] {2}|\s\Z')


class Fuzzer:
    """A translator, the same one as a run, and a folder for files."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self.translator = tiny_translator()
        self.folder, self.rng = folder, rng
        self.run = tiny_run(folder / 'run', self.translator)

    def command(self, *options: object) -> list[str]:
        invalid = ['--invalid', 'replace']
        return [sys.executable, '-m', 'flax_transformer.cli', 'translate', self.run, *invalid, *map(str, options)]

    def start(self, *options: object, **pipes: int) -> subprocess.Popen:
        return subprocess.Popen(self.command(*options), env=ENVIRONMENT, stderr=subprocess.PIPE, **pipes)

    def piped(self, content: bytes, *options: object) -> tuple[int, bytes, bytes]:
        """What the command makes of the content, which it gets in pieces that end anywhere."""
        process = self.start(*options, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        sizes = self.rng.integers(1, 100_000, 1 + len(content) // 1000)

        def feed() -> None:
            at = 0
            for size in sizes:
                try:
                    process.stdin.write(content[at : at + size])
                    process.stdin.flush()
                except BrokenPipeError:  # it has stopped at a bad line
                    return
                at += size
            process.stdin.write(content[at:])
            process.stdin.close()

        errors: list[bytes] = []
        threads = [threading.Thread(target=feed), threading.Thread(target=lambda: errors.append(process.stderr.read()))]
        for thread in threads:
            thread.start()
        output = process.stdout.read()
        code = process.wait()
        for thread in threads:
            thread.join()
        return code, output, errors[0]

    def texts(self, lines: list[bytes], output: bytes) -> None:
        """Raises AssertionError unless the output is a translation of each line, in order."""
        made = output.split(b'\n')
        assert made.pop() == b'', output[-200:]
        assert len(made) == len(lines), (len(made), len(lines))
        for line, one in zip(lines, made, strict=True):
            assert len(one.decode('utf-8').splitlines()) <= 1, one
            is_blank = not line.decode('utf-8', 'replace').strip('\ufeff \t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029')
            assert not is_blank or not one.decode('utf-8').strip('\ufeff \t\r'), line
        first = int(self.rng.integers(max(len(lines) - SAMPLE, 1)))
        some = slice(first, first + SAMPLE)
        made[0] = made[0].removeprefix(BOM)  # the command keeps a file's mark
        cleaned = [line.removeprefix(BOM if i + first == 0 else b'') for i, line in enumerate(lines[some])]
        ours = self.translator(cleaned)
        for line, one, command in zip(cleaned, ours, made[some], strict=True):
            # The command keeps blanks around what it translates.
            if not BLANKS.search(line.decode('utf-8', 'replace')):
                assert one.text.encode() == command, line


def random_lines(rng: np.random.Generator, count: int) -> list[bytes]:
    lines = [random_line(rng) for _ in range(count)]
    if rng.random() < count / CHUNK:
        lines[rng.integers(count)] = b'word ' * 10_000 if rng.integers(2) else b'y' * 50_000
    return lines


def joined(lines: list[bytes]) -> bytes:
    return b''.join(line + b'\n' for line in lines)


def in_this_process(fuzzer: Fuzzer, count: int) -> Counter:
    return check_lines(fuzzer.translator, random_lines(fuzzer.rng, count))


def through_pipes(fuzzer: Fuzzer, count: int) -> Counter:
    lines = random_lines(fuzzer.rng, count)
    code, output, error = fuzzer.piped(joined(lines)[: -1 if lines[-1] else None])  # the last line has no end
    assert code == 0, error
    fuzzer.texts(lines, output)
    return Counter(lines=count)


def json_lines(fuzzer: Fuzzer, count: int) -> Counter:
    """As many objects, and then a bad line: what is before it comes out, and what is after it does not."""
    lines = [random_record(fuzzer.rng) for _ in range(count)]
    bad = [random_bad_record(fuzzer.rng), *[random_record(fuzzer.rng) for _ in range(3)]]
    content = b'\xef\xbb\xbf' + joined([*lines, *bad])
    code, output, error = fuzzer.piped(content, '--input-format', 'jsonl', '--format', 'jsonl')
    assert code == 2, error
    assert f'input line {count + 1} '.encode() in error, error
    assert b'Traceback' not in error, error
    made = output.split(b'\n')
    assert made.pop() == b'', output[-200:]
    assert len(made) == count, (len(made), count)
    for line, one in zip(lines, made, strict=True):
        check_record(line, one)
    return Counter(lines=count, records=count, refused=1)


def killed_and_resumed(fuzzer: Fuzzer, count: int) -> Counter:
    """From file to file, stopped by a signal now and then."""
    lines = random_lines(fuzzer.rng, count)
    files = fuzzer.folder / 'lines', fuzzer.folder / 'translations'
    files[0].write_bytes(joined(lines))
    kills, code = 0, None
    while code != 0:
        process = fuzzer.start('--input', files[0], '--output', files[1], '--resume')
        timer = threading.Timer(
            fuzzer.rng.uniform(1, 12), process.send_signal, [fuzzer.rng.choice([signal.SIGKILL, signal.SIGINT])]
        )
        if kills < 3:
            timer.start()
        error = process.stderr.read()
        code = process.wait()
        timer.cancel()
        assert code in (0, 130, -signal.SIGKILL, -signal.SIGINT), error
        kills += code != 0
    fuzzer.texts(lines, files[1].read_bytes())
    files[1].unlink()
    return Counter(lines=count, kills=kills)


def in_shards(fuzzer: Fuzzer, count: int) -> Counter:
    """Two packed files of odd sizes, divided among three processes."""
    lines = random_lines(fuzzer.rng, count)
    cut = int(fuzzer.rng.integers(count))
    for number, part in enumerate((lines[:cut], lines[cut:])):
        (fuzzer.folder / f'part-{number}.gz').write_bytes(gzip.compress(joined(part), 1))
    options = ('--input', fuzzer.folder / 'part-*', '--output', fuzzer.folder / 'out')
    for shard in ('2/3', '3/3', '1/3'):
        process = fuzzer.start('--shard', shard, *options)
        error = process.stderr.read()
        assert process.wait() == 0, error
    for number, part in enumerate((lines[:cut], lines[cut:])):
        pieces = sorted((fuzzer.folder / 'out').glob(f'part-{number}.gz.*'))
        fuzzer.texts(part, b''.join(gzip.decompress(piece.read_bytes()) for piece in pieces))
    shutil.rmtree(fuzzer.folder / 'out')
    return Counter(lines=count)


WAYS: list[Callable[[Fuzzer, int], Counter]]
WAYS = [in_this_process, through_pipes, json_lines, killed_and_resumed, json_lines, in_shards]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('lines', type=int, nargs='?', default=1_000_000)
    parser.add_argument('seed', type=int, nargs='?', default=0)
    options = parser.parse_args()
    num_lines, seed = options.lines, options.seed
    folder = Path(tempfile.mkdtemp(prefix='fuzz_lines_'))
    fuzzer = Fuzzer(folder, np.random.default_rng(seed))
    counts: Counter = Counter()
    started = time.perf_counter()
    print(f'files in {folder}', file=sys.stderr, flush=True)
    chunk = min(CHUNK, -(-num_lines // len(WAYS)))
    for turn in range(-(-num_lines // chunk)):
        way = WAYS[turn % len(WAYS)]
        found = way(fuzzer, min(chunk, num_lines - counts['lines']))
        counts += found + Counter({way.__name__: found['lines']})
        print(f'{counts["lines"]:,} lines, {time.perf_counter() - started:.0f} s', file=sys.stderr, flush=True)
    shutil.rmtree(folder)
    record = {'benchmark': 'fuzz_lines', 'seed': seed, **counts, 'lost_or_broken': 0}
    print(json.dumps(record | {'seconds': round(time.perf_counter() - started, 1)}))


if __name__ == '__main__':
    main()

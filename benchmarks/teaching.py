"""What requests wait, and what memory grows, while a server learns from corrections.

    python benchmarks/teaching.py [--source report.en --reference report.de] [--count 1000]

A client asks for other sentences, one after the other with a pause of PAUSE, first of a server at rest, then while
pairs are sent to /suggest, each once the one before it was learned. Prints a line of JSON: the median request of both
in milliseconds and their ratio, the median time from a pair to its version, pairs that were refused, and megabytes of
the server and of the process that learns after a tenth of the pairs and after all.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from soak import measure
from soaking import exchange, request

from flax_transformer.data.lines import read_lines

PORT = 5606
PAUSE = 0.2  # seconds
DATA = Path(os.environ.get('FLAX_TRANSFORMER_DATA', 'data'))


class Client:
    """Asks for sentences, one after the other, until it is stopped."""

    def __init__(self, lines: list[str]) -> None:
        self.waits: list[float] = []
        self._lines = lines
        self._stopped = False

    async def ask(self) -> None:
        while not self._stopped:
            line = self._lines[len(self.waits) % len(self._lines)]
            began = time.perf_counter()
            status, _ = await exchange(PORT, request('/translate', {'q': line, 'source': 'en', 'target': 'de'}))
            if status != '200':
                raise RuntimeError(f'a request got {status}')
            self.waits.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(PAUSE)

    def stop(self) -> None:
        self._stopped = True


def children(process: int) -> list[int]:
    """The processes that its threads have started."""
    tasks = Path(f'/proc/{process}/task').iterdir()
    return [int(child) for task in tasks for child in (task / 'children').read_text().split()]


async def version() -> int:
    _, content = await exchange(PORT, request('/v1/memory', method='GET'))
    return json.loads(content)['learned']


async def teach(process: int, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Sends pairs, each once the one before it was learned."""
    refused, seconds, megabytes = 0, [], []
    for place, (source, target) in enumerate(pairs, 1):
        before = await version()
        began = time.perf_counter()
        asked = {'q': source, 's': target, 'source': 'en', 'target': 'de'}
        status, _ = await exchange(PORT, request('/suggest', asked))
        if status == '200':
            while await version() == before:
                await asyncio.sleep(0.1)
            seconds.append(time.perf_counter() - began)
        else:
            refused += 1
        if place in (max(len(pairs) // 10, 1), len(pairs)):
            megabytes.append([round(measure(each)[0]) for each in (process, *children(process))])
    return {'refused': refused, 'version_seconds': round(statistics.median(seconds), 2), 'megabytes': megabytes}


async def run(process: subprocess.Popen[bytes], pairs: list[tuple[str, str]], lines: list[str], rest: float) -> Any:
    while (await exchange(PORT, request('/health', method='GET')))[0] != '200':
        if process.poll() is not None:
            sys.exit('the server has ended')
        await asyncio.sleep(0.5)
    await teach(process.pid, pairs[:1])  # the helper has compiled its programs after this
    medians = []
    for is_teaching in (False, True):
        client = Client(lines)
        asking = asyncio.create_task(client.ask())
        taught = await teach(process.pid, pairs[1:]) if is_teaching else await asyncio.sleep(rest)
        client.stop()
        await asking
        medians.append(statistics.median(client.waits))
    ratio = {'ratio': round(medians[1] / medians[0], 2)}
    return {'at_rest_ms': round(medians[0], 1), 'learning_ms': round(medians[1], 1), **ratio, **taught}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--run', default='everyday')
    captions = DATA / 'multi30k'
    parser.add_argument('--source', type=Path, default=captions / 'test_2016_flickr.en')
    parser.add_argument('--reference', type=Path, default=captions / 'test_2016_flickr.de')
    parser.add_argument('--count', type=int, default=60, help='pairs')
    parser.add_argument('--rest', type=float, default=20.0, help='seconds of the server at rest')
    given = parser.parse_args()
    both = zip(read_lines(given.source), read_lines(given.reference), strict=True)
    both = list(dict.fromkeys(pair for pair in both if all(map(str.strip, pair))))  # a repetition makes no version
    pairs = both[: given.count + 1]
    lines = [source for source, _ in both[len(pairs) :]]  # none that the memory answers
    with tempfile.TemporaryDirectory() as folder:
        options = ['--port', str(PORT), '--learn', folder, '--limits.cache', '0']
        command = [sys.executable, '-m', 'flax_transformer', '-q', 'serve', given.run, *options]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                print(json.dumps(asyncio.run(run(process, pairs, lines, given.rest))))
            finally:
                process.terminate()


if __name__ == '__main__':
    main()

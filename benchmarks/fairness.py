"""What eight clients wait for short texts while another sends the worst that the server's limits admit, without end.

    python benchmarks/fairness.py RUN [--seconds 20] [--rounds 3] [--connections 32]

Starts `flax-transformer serve RUN`. In each round the eight, each from an address of its own on this machine, ask for
one short text after another for so many seconds, alone and then beside the other client, a process of its own, which
keeps that many connections busy. Rounds alternate because other work on the machine changes its speed. Prints one line
of JSON: the median and the 99th percentile in milliseconds alone and beside it, their ratio, that of each round
(programs are compiled in the first one), and all replies by status and kind.
"""

import argparse
import asyncio
import itertools
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from soaking import KEY, exchange, request

PORT = 5603
SHORT = [
    'Hello.',
    'The dog sleeps in the garden.',
    'Where is the station?',
    'Thank you very much!',
    'I am tired today.',
]
PAIR = {'source': 'en', 'target': 'de'}
_TEXT = 'old man came home from market his neighbors were waiting for him with bad news about river dog sleeps'
_WORDS = _TEXT.split()


def _prose(end: str = '.') -> str:
    """Other sentences each time: what is equal is translated once."""
    return ''.join(f'The {" ".join(random.choices(_WORDS, k=20))}{end} ' for _ in range(200))


def worst(key: str = KEY) -> dict[str, bytes]:
    """Requests at the limits, by kind."""
    entries = ''.join(f'term{number}\tWort{number}\n' for number in range(11_000))
    glossary = {'name': 'a', 'source_lang': 'en', 'target_lang': 'de', 'entries': entries, 'entries_format': 'tsv'}
    xml = {'target_lang': 'DE', 'source_lang': 'EN', 'tag_handling': 'xml'}
    texts = [_prose()[:150] for _ in range(128)]
    lines = [' '.join(random.choices(_WORDS, k=4))[:19] for _ in range(990)]
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        'open tags': ('/translate', {'q': '<a="\'' * 3900, 'format': 'html', **PAIR}),
        'one line': ('/translate', {'q': _prose(',')[:19_900], **PAIR}),
        'prose': ('/translate', {'q': _prose()[:19_900], **PAIR}),
        'lines': ('/translate', {'q': '\n'.join(lines), **PAIR}),
        'texts': ('/translate', {'q': texts, **PAIR, 'alternatives': 3}),
        'no source': ('/translate', {'q': texts, 'source': 'auto', 'target': 'de'}),
        'garbage': ('/translate', {'q': 'x%7&Q ~' * 2800, **PAIR}),
        'backtracking': ('/translate', {'q': '<a ' + ' class=a' * 2470 + '>x</a>', 'format': 'html', **PAIR}),
        'nested': ('/v2/translate', {'text': '<b>' * 2800 + 'x' + '</b>' * 2800, **xml}),
        'tagged': ('/v2/translate', {'text': '<b>the</b> <i>dog</i> ' * 900, **xml}),
        'glossary': ('/v2/glossaries', glossary),
    }
    return {kind: request(*sent, key=key) for kind, sent in kinds.items()}


def without_end() -> Iterator[tuple[str, bytes]]:
    while True:
        yield from worst().items()


async def ask(content: bytes, address: str) -> str:
    status, _ = await exchange(PORT, content, address=address)
    return status


async def short_texts(address: str, end: float, waits: list[float], replies: Counter[str]) -> None:
    for text in itertools.cycle(SHORT):
        if time.monotonic() > end:
            return
        began = time.monotonic()
        replies[await ask(request('/translate', {'q': text, **PAIR}), address)] += 1
        waits.append(1000 * (time.monotonic() - began))


async def attack(end: float, kinds: Iterator[tuple[str, bytes]], replies: dict[str, Counter[str]]) -> None:
    for kind, content in kinds:
        if time.monotonic() > end:
            return
        status = await ask(content, '127.0.0.99')
        replies.setdefault(kind, Counter())[status] += 1
        await asyncio.sleep(0.01)


def attack_until(end: float, connections: int) -> dict[str, Counter[str]]:
    """The replies by kind; in another process, or the eight would wait until its texts are made."""
    replies: dict[str, Counter[str]] = {}
    kinds = without_end()

    async def attack_all() -> None:
        await asyncio.gather(*(attack(end, kinds, replies) for _ in range(connections)))

    asyncio.run(attack_all())
    return replies


async def round_of(
    seconds: float, connections: int, replies: dict[str, Any], other: ProcessPoolExecutor
) -> list[float]:
    waits: list[float] = []
    end = time.monotonic() + seconds
    attacking = asyncio.get_running_loop().run_in_executor(other, attack_until, end, connections)
    name = 'short, beside it' if connections else 'short, alone'
    asking = [short_texts(f'127.0.0.{10 + number}', end, waits, replies[name]) for number in range(8)]
    await asyncio.gather(*asking)
    for kind, counted in (await attacking).items():
        replies['worst'].setdefault(kind, Counter()).update(counted)
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('--seconds', type=float, default=20.0)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--connections', type=int, default=32)
    parser.add_argument('--options', nargs=argparse.REMAINDER, default=[], help='of `serve`; last')
    given = parser.parse_args()
    waits: dict[int, list[float]] = {0: [], given.connections: []}
    ratios: list[float] = []
    replies: dict[str, Any] = {'short, alone': Counter(), 'short, beside it': Counter(), 'worst': {}}
    command = [sys.executable, '-m', 'flax_transformer', 'serve', given.run, '--port', str(PORT), '--limits.cache', '0']
    other = ProcessPoolExecutor(1, multiprocessing.get_context('spawn'))
    with subprocess.Popen([*command, *given.options]) as process, other:
        try:
            other.submit(worst).result()  # it has started
            while asyncio.run(exchange(PORT, request('/health', method='GET')))[0] != '200':
                if process.poll() is not None:
                    sys.exit('the server has ended')
                time.sleep(0.5)
            for _ in range(given.rounds):
                medians = []
                for connections, seen in waits.items():
                    asked = asyncio.run(round_of(given.seconds, connections, replies, other))
                    medians.append(statistics.median(asked))
                    seen += asked
                    time.sleep(1)
                ratios.append(round(medians[1] / medians[0], 2))
        finally:
            process.kill()
    alone, beside = waits.values()
    medians = statistics.median(alone), statistics.median(beside)
    late = [sorted(values)[int(0.99 * len(values))] for values in (alone, beside)]
    figures = {'median_ms': list(map(round, medians)), 'ratio': round(medians[1] / medians[0], 2), 'rounds': ratios}
    print(json.dumps({**figures, 'p99_ms': list(map(round, late)), 'replies': replies}))


if __name__ == '__main__':
    main()

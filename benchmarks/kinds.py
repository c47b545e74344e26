"""The memory of a server after many kinds of request, relative to that after its start.

    python benchmarks/kinds.py RUN LINES [--kinds 1000] [--options ...]

A kind is a number of lines, of words, a pair of languages, and a way of asking: plain text, HTML, alternatives,
alignments, a glossary of up to 1, 2 or 10 terms in each line, or a file. The words are those of LINES. Memory after the
start is taken once all usual programs are compiled (the server works meanwhile), and it has not grown for --still
seconds. Prints a line of JSON: megabytes then, at most and at the end, the last relative to the first, and replies by
status.
"""

import argparse
import asyncio
import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from soak import MULTIPART, form_of, measure
from soaking import exchange, request

PORT = 5607
NUM_WORDS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 60)
NUM_LINES = (1, 2, 3, 5, 9, 17)
WAYS = ('plain', 'html', 'alternatives 1', 'alternatives 3', 'alignment', 'terms 1', 'terms 2', 'terms 10', 'file')


async def settled(process: int, still: float) -> float:
    """Megabytes once nothing is compiled and they no longer grow."""
    while b'waiting_compilations 0.0' not in (await exchange(PORT, request('/metrics', method='GET')))[1]:
        await asyncio.sleep(0.5)
    most, since = 0.0, time.monotonic()
    while time.monotonic() - since < still:
        megabytes = measure(process)[0]
        if megabytes > 1.005 * most:
            most, since = megabytes, time.monotonic()
        await asyncio.sleep(0.25)
    return megabytes


async def ask(way: str, lines: list[str], source: str, target: str) -> str:
    """The status of the reply."""
    name, _, number = way.partition(' ')
    fields: dict[str, Any] = {'source': source, 'target': target}
    if name == 'file':
        content = form_of('a.txt', '\n'.join(lines).encode(), **fields)
        status, _ = await exchange(PORT, request('/translate_file', content, kind=MULTIPART), seconds=330)
    elif name == 'alignment':
        asked = fields | {'text': '\n'.join(lines), 'alignment': True}
        status, _ = await exchange(PORT, request('/v1/translate', asked))
    elif name == 'terms':
        words = [word for line in lines for word in line.split()[: int(number)]]
        entries = '\n'.join(f'{word}\tx{place}' for place, word in enumerate(dict.fromkeys(words)))
        made = {'name': 'a', 'source_lang': source, 'target_lang': target, 'entries_format': 'tsv'}
        status, content = await exchange(PORT, request('/v2/glossaries', made | {'entries': entries}))
        if status != '201':
            return status
        glossary = json.loads(content)['glossary_id']
        asked = {'text': lines, 'source_lang': source, 'target_lang': target, 'glossary_id': glossary}
        status, _ = await exchange(PORT, request('/v2/translate', asked))
        await exchange(PORT, request(f'/v2/glossaries/{glossary}', method='DELETE'))
    else:
        texts = [f'<p>{line}</p>' for line in lines] if name == 'html' else lines
        asked = fields | {'q': texts, 'alternatives': int(number or 0)}
        asked |= {'format': 'html'} if name == 'html' else {}
        status, _ = await exchange(PORT, request('/translate', asked))
    return status


async def run(process: subprocess.Popen[bytes], words: list[str], count: int, still: float) -> dict[str, Any]:
    while (await exchange(PORT, request('/health', method='GET')))[0] != '200':
        if process.poll() is not None:
            sys.exit('the server has ended')
        await asyncio.sleep(0.5)
    first = most = await settled(process.pid, still)
    _, content = await exchange(PORT, request('/languages', method='GET'))
    pairs = [
        (language['code'], target)
        for language in json.loads(content)
        for target in language['targets']
        if target != language['code']
    ]
    draw = random.Random(0)
    kinds = list(itertools.product(NUM_WORDS, NUM_LINES, pairs, WAYS))
    draw.shuffle(kinds)
    statuses: Counter[str] = Counter()
    for num_words, num_lines, pair, way in kinds[:count]:
        lines = [' '.join(draw.choices(words, k=num_words)) for _ in range(num_lines)]
        statuses[await ask(way, lines, *pair)] += 1
        most = max(most, measure(process.pid)[0])
    last = await settled(process.pid, still)
    memory = {'first_mb': round(first), 'most_mb': round(most), 'last_mb': round(last), 'ratio': round(last / first, 3)}
    return {'kinds': len(kinds[:count]), **memory, 'statuses': statuses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('lines', type=Path)
    parser.add_argument('--kinds', type=int, default=1000)
    parser.add_argument('--still', type=float, default=10.0, help='seconds without growth')
    parser.add_argument('--options', nargs=argparse.REMAINDER, default=[], help='of `serve`; last')
    given = parser.parse_args()
    words = given.lines.read_text(encoding='utf-8').split()
    command = [sys.executable, '-m', 'flax_transformer', '-q', 'serve', given.run, '--port', str(PORT), *given.options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            print(json.dumps(asyncio.run(run(process, words, given.kinds, given.still))))
        finally:
            process.terminate()


if __name__ == '__main__':
    main()

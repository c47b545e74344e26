"""What a server replies for long to good clients, clumsy ones and the worst, while its models are read again and again.

    python benchmarks/soak.py RUN LINES [--minutes 20] [--also RUN ...] [--options ...]

Starts `flax-transformer serve RUN` with two keys. The clients of one ask for lists of LINES in every pair of languages,
for glossaries, maps of attention and files, or send what no client should; that of the other sends the worst that the
limits admit (`fairness.py`), without end. SIGHUP comes every half minute, at last SIGTERM. Prints one line of JSON: all
replies by kind and status, those with 5xx, memory, threads and descriptors (after the warm-up, their most, and how much
they grow in an hour by a line through the last three quarters), how often the models were read again, and faults. Ends
with 1 if there are any: a reply of another kind than expected, 500 among them, a list of another length or, in float32,
a translation other than before.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from fairness import worst
from soaking import KEY, exchange, request

PORT = 5604
WORST = 'another key'
REFUSED = {'429', '503'}  # not admitted
EXPECTED = {'400', '403', '404', '405', '408', '413', '431', *REFUSED, 'none'}  # replies to clients that misbehave
BOUNDARY = 'a-boundary'
MULTIPART = f'multipart/form-data; boundary={BOUNDARY}'
FILES = {
    'a.txt': '{}\n\n{}\n',
    'a.html': '<h1>{}</h1><p>{} <b>x</b></p>',
    'a.srt': '1\n00:00:01,000 --> 00:00:02,000\n{}\n\n2\n00:00:03,000 --> 00:00:04,000\n{}\n',
}


class Soak:
    """What all clients of a server got."""

    def __init__(self, port: int, pairs: list[tuple[str, str]], lines: list[str], end: float) -> None:
        self.port, self.pairs, self.lines, self.end = port, pairs, lines, end
        self.replies: dict[str, Counter[str]] = {}
        self.faults: Counter[str] = Counter()
        self.known: dict[tuple[str, str, str], str] = {}  # the first translation of each line
        self.changed = 0  # translations that were other ones later

    def count(self, kind: str, status: str, expected: set[str]) -> None:
        self.replies.setdefault(kind, Counter())[status] += 1
        if status not in expected:
            self.faults[f'{kind}: {status}'] += 1

    async def asks(self) -> None:
        """Asks for lists of lines, and looks whether each has its translation."""
        while time.monotonic() < self.end:
            source, target = random.choice(self.pairs)
            chosen = random.choices(self.lines, k=random.choice((1, 1, 1, 5, 20)))
            fields = {'q': chosen, 'source': source, 'target': target, 'alternatives': random.choice((0, 0, 2))}
            status, content = await exchange(self.port, request('/translate', fields))
            self.count('lists', status, {'200', *REFUSED})
            if status != '200':
                await asyncio.sleep(0.5)
                continue
            found = json.loads(content)['translatedText']
            if len(found) != len(chosen):
                self.faults['a list of another length'] += 1
            for line, text in zip(chosen, found, strict=False):
                self.changed += self.known.setdefault((source, target, line), text) != text

    async def keeps_glossaries(self) -> None:
        """Makes a glossary, translates with it, and deletes it."""
        while time.monotonic() < self.end:
            source, target = random.choice(self.pairs)
            fields = {'name': 'a', 'source_lang': source, 'target_lang': target}
            line = random.choice(self.lines)
            terms = {'entries': f'{line.split()[0]}\tx', 'entries_format': 'tsv'}
            status, content = await exchange(self.port, request('/v2/glossaries', fields | terms))
            self.count('glossaries', status, {'201'})
            if status == '201':
                name = json.loads(content)['glossary_id']
                asked = {'text': [line], 'glossary_id': name} | fields
                status, _ = await exchange(self.port, request('/v2/translate', asked))
                self.count('with a glossary', status, {'200', *REFUSED})
                status, _ = await exchange(self.port, request(f'/v2/glossaries/{name}', method='DELETE'))
                self.count('glossaries deleted', status, {'204'})
            await asyncio.sleep(0.5)

    async def sends_files(self) -> None:
        """Sends a file by either API, and fetches its translation."""
        while time.monotonic() < self.end:
            source, target = random.choice(self.pairs)
            name, form = random.choice([*FILES.items()])
            content = form.format(*random.choices(self.lines, k=2)).encode()
            sent = form_of(name, content, source=source, target=target)
            sent = request('/translate_file', sent, kind=MULTIPART)
            status, reply = await exchange(self.port, sent, seconds=330)  # files have 10 times max_wait
            self.count('files', status, {'200', '404', *REFUSED})
            if status == '200':
                path = '/' + json.loads(reply)['translatedFileUrl'].split('/', 3)[3]
                status, _ = await exchange(self.port, request(path, method='GET'))
                self.count('files fetched', status, {'200'})
            sent = form_of(name, content, source_lang=source, target_lang=target)
            status, reply = await exchange(self.port, request('/v2/document', sent, kind=MULTIPART))
            self.count('documents', status, {'200', '404', *REFUSED})
            if status == '200':
                named = json.loads(reply)
                path = f'/v2/document/{named["document_id"]}'
                while status == '200' and json.loads(reply).get('status') != 'done':
                    await asyncio.sleep(0.2)
                    status, reply = await exchange(self.port, request(path, named))
                self.count('documents done', status, {'200'})
                status, _ = await exchange(self.port, request(f'{path}/result', named))
                self.count('documents fetched', status, {'200'})
            await asyncio.sleep(1)

    async def looks(self) -> None:
        """Asks for alignments and for maps of attention, as the page does."""
        while time.monotonic() < self.end:
            source, target = random.choice(self.pairs)
            asked = {'text': random.choice(self.lines), 'source': source, 'target': target}
            status, reply = await exchange(self.port, request('/v1/translate', asked | {'alignment': True}))
            self.count('alignments', status, {'200', *REFUSED})
            if status == '200':
                (translation,) = json.loads(reply)['translations']
                asked['translation'] = translation['text']
                status, _ = await exchange(self.port, request('/v1/attention', asked))
                self.count('attention', status, {'200', *REFUSED})
            await asyncio.sleep(1)

    async def sends_the_worst(self) -> None:
        while time.monotonic() < self.end:
            for kind, content in worst(WORST).items():
                if time.monotonic() > self.end:
                    return
                status, _ = await exchange(self.port, content, address='127.0.0.99')
                self.count(f'worst, {kind}', status, {'200', '201', *EXPECTED})

    async def misbehaves(self) -> None:
        """Sends what no client should, one kind after another."""
        source, target = self.pairs[0]
        asked = {'q': self.lines[0], 'source': source, 'target': target}
        whole = request('/translate', asked)
        kinds = {
            'garbage': os.urandom(300) + b'\r\n\r\n',
            'another protocol': b'SSH-2.0-x\r\n\r\n',
            'wrong JSON': request('/translate', b'{"q": "a'),
            'nested': request('/translate', b'[' * 50_000),
            'wrong types': request('/translate', {'q': [{}], 'source': 7, 'target': None}),
            'wrong key': request('/translate', asked, key='b'),
            'wrong pair': request('/translate', asked | {'target': 'xx'}),
            'wrong path': request('/v2/nothing'),
            'wrong method': request('/translate', method='PUT'),
            'line of 1 MB': request('/translate', asked | {'q': 'a' * 1_000_000}),
            'many lines': request('/translate', asked | {'q': 'a\n' * 9_000}),
            'wrong glossary': request('/v3/glossaries', {'name': 'a', 'dictionaries': [{'entries': 1}]}),
            'hangs up': whole,
            'hangs up in the body': whole[:-5],
            'hangs up in the head': whole[:40],
            'body that does not come': request('/translate', b'{', length=100),
        }
        while time.monotonic() < self.end:
            for kind, content in kinds.items():
                status, _ = await exchange(self.port, content, hangs_up=kind.startswith('hangs up'))
                self.count(kind, status, EXPECTED)
                await asyncio.sleep(0.05)


def form_of(name: str, content: bytes, **fields: str) -> bytes:
    """The body of a form with a file."""
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{fields[key]}' for key in fields]
    parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n')
    return '\r\n'.join(parts).encode() + content + f'\r\n--{BOUNDARY}--\r\n'.encode()


def measure(process: int) -> tuple[float, float, float]:
    """Megabytes, threads and open files of a process."""
    status = dict(
        line.split(':\t', 1) for line in Path(f'/proc/{process}/status').read_text().splitlines() if ':\t' in line
    )
    return int(status['VmRSS'].split()[0]) / 1024, int(status['Threads']), len(os.listdir(f'/proc/{process}/fd'))


async def soak(process: subprocess.Popen[bytes], lines: list[str], seconds: float, clients: int) -> dict[str, Any]:
    """Keeps a warm server busy, then ends it; returns what clients got, and how it grew."""
    _, content = await exchange(PORT, request('/languages', method='GET'))
    pairs = [(language['code'], target) for language in json.loads(content) for target in language['targets']]
    state = Soak(PORT, pairs, lines, time.monotonic() + seconds)
    rows: list[tuple[float, float, float, float]] = []
    reads = 0

    async def watch() -> None:
        while time.monotonic() < state.end:
            rows.append((seconds - state.end + time.monotonic(), *measure(process.pid)))
            await asyncio.sleep(max(seconds / 400, 0.2))

    async def read_again() -> None:
        nonlocal reads
        pause = min(seconds / 3, 30)
        while time.monotonic() < state.end - pause:
            await asyncio.sleep(pause)
            process.send_signal(signal.SIGHUP)
            reads += 1

    good = [state.asks() for _ in range(clients)]
    others = [state.misbehaves(), state.misbehaves(), state.sends_files(), state.looks(), state.keeps_glossaries()]
    bad = [state.sends_the_worst() for _ in range(clients)]
    await asyncio.gather(watch(), read_again(), *good, *others, *bad)
    process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(process.wait, 60)
    times, *columns = np.array(rows).T
    late = times >= seconds / 4
    grown = {}
    for name, values in zip(('memory_mb', 'threads', 'descriptors'), columns, strict=True):
        slope = np.polyfit(times[late], values[late], 1)[0] * 3600
        figures = {'first': values[0], 'most': values.max(), 'last': values[-1], 'an_hour': slope}
        grown[name] = {key: round(float(value), 1) for key, value in figures.items()}
    failed = {
        f'{kind}: {status}': count
        for kind, statuses in state.replies.items()
        for status, count in statuses.items()
        if status.startswith('5')
    }
    return {
        **{'seconds': seconds, 'replies': state.replies, '5xx': failed, **grown, 'sighups': reads},
        **{'exit_code': code, 'faults': state.faults, 'changed': state.changed},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('lines', type=Path)
    parser.add_argument('--minutes', type=float, default=20.0)
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--also', nargs='+', default=[], help='more runs')
    parser.add_argument('--options', nargs=argparse.REMAINDER, default=[], help='of `serve`; last')
    given = parser.parse_args()
    lines = list(filter(str.strip, given.lines.read_text(encoding='utf-8').splitlines()))
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / 'keys'
        keys.write_text(f'{KEY}\n{WORST}\n', encoding='utf-8')
        command = [sys.executable, '-m', 'flax_transformer', 'serve', given.run, *given.also, '--port', str(PORT)]
        kept = ['--keys', str(keys), '--store', f'{folder}/store']
        with subprocess.Popen([*command, *kept, *given.options]) as process:
            try:
                while asyncio.run(exchange(PORT, request('/health', method='GET')))[0] != '200':
                    if process.poll() is not None:
                        sys.exit('the server has ended')
                    time.sleep(0.5)
                seen = asyncio.run(soak(process, lines, 60 * given.minutes, given.clients))
            finally:
                process.kill()
    print(json.dumps(seen))
    if seen['faults'] or seen['exit_code'] or (seen['changed'] and 'int8' not in given.options):
        sys.exit(1)


if __name__ == '__main__':
    main()

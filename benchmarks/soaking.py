"""A server under full load for long: clients that ask, others that misbehave, and what the process grows by."""

import asyncio
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

KEY = 'a key'
REFUSED = {'429', '503'}  # not admitted
EXPECTED = {'400', '403', '404', '405', '408', '413', '431', *REFUSED, 'none'}  # replies to clients that misbehave


def request(path: str, body: bytes | dict[str, Any] = b'', *, method: str = 'POST', key: str = KEY, length: int = -1):
    """The bytes of a request; with a length, what its header promises."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(body) if length < 0 else length
    head = f'{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n'
    return f'{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n'.encode() + body


async def exchange(
    port: int, content: bytes, *, hangs_up: bool = False, address: str = '127.0.0.1'
) -> tuple[str, bytes]:
    """The status of the reply and its body; `none`: the connection was closed, `late`: nothing came in a minute."""
    try:
        reader, writer = await asyncio.open_connection('127.0.0.1', port, local_addr=(address, 0))
        try:
            writer.write(content)
            await writer.drain()
            if hangs_up:
                await asyncio.sleep(random.random() / 20)
                return 'none', b''
            async with asyncio.timeout(60):
                head = await reader.readuntil(b'\r\n\r\n')
                lengths = [each[15:] for each in head.lower().split(b'\r\n') if each.startswith(b'content-length:')]
                return head.split()[1].decode(), await reader.readexactly(int(lengths[0])) if lengths else b''
        finally:
            writer.close()
    except TimeoutError:
        return 'late', b''
    except (OSError, asyncio.IncompleteReadError):
        return 'none', b''


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


def measure(process: int) -> tuple[float, float, float]:
    """Megabytes, threads and open files of a process."""
    status = dict(
        line.split(':\t', 1) for line in Path(f'/proc/{process}/status').read_text().splitlines() if ':\t' in line
    )
    return int(status['VmRSS'].split()[0]) / 1024, int(status['Threads']), len(os.listdir(f'/proc/{process}/fd'))


async def soak(process: subprocess.Popen, port: int, lines: list[str], seconds: float, clients: int) -> dict[str, Any]:
    """Keeps a warm server busy; returns what clients got, and the growth of the server."""
    _, content = await exchange(port, request('/languages', method='GET'))
    pairs = [(each['code'], target) for each in json.loads(content) for target in each['targets']]
    state = Soak(port, pairs, lines, time.monotonic() + seconds)
    rows: list[tuple[float, float, float, float]] = []

    async def watch() -> None:
        while time.monotonic() < state.end:
            rows.append((seconds - state.end + time.monotonic(), *measure(process.pid)))
            await asyncio.sleep(max(seconds / 400, 0.2))

    good = [state.asks() for _ in range(clients)]
    bad = [state.misbehaves() for _ in range(max(clients // 4, 1))]
    await asyncio.gather(watch(), state.keeps_glossaries(), *good, *bad)
    process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(process.wait, 60)
    times, *columns = np.array(rows).T
    late = times >= seconds / 4
    grown = {}
    for name, values in zip(('memory_mb', 'threads', 'descriptors'), columns, strict=True):
        slope = np.polyfit(times[late], values[late], 1)[0] * 3600
        ends = {'first': values[late][0], 'last': values[-1], 'most': values.max(), 'an_hour': slope}
        grown[name] = {each: round(float(value), 1) for each, value in ends.items()}
    return {
        **{'seconds': seconds, 'pairs': len(pairs), 'replies': state.replies, **grown},
        **{'exit_code': code, 'faults': state.faults, 'changed': state.changed},
    }

"""A server under load, against the translator called directly, in turn.

    python benchmarks/serve.py RUN LINES [--clients 1 8 64] [--requests 512] [--rounds 3] [--ctranslate2 float32]

`direct` translates the lines in their order, as many at a time as there are clients, with a warm Translator in another
process. `server` is `flax-transformer serve RUN`, which keeps no translations here, asked for one line at a time by
that many clients, each with a connection that it keeps. With --ctranslate2, on the same model and with weights of that
type, `ctranslate2` is its search called like `direct`, `backend` our server with that search, and `peer` a bare
application (`peer_app` below) that calls it as LibreTranslate does: each request by itself, with the beam of the run.

Prints one line of JSON: for each number of clients the median lines a second of each, what a server has of its search
called directly, milliseconds of a request at the median and the 99th percentile, and the clients' share of a CPU.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measuring import Worker
from soaking import exchange, request

DIRECT = """
import json, sys, time
from flax_transformer import Translator
translator = Translator.from_run(sys.argv[1])
if sys.argv[3:]:
    from flax_transformer.interop.ctranslate2 import CTranslate2Translator
    translator = CTranslate2Translator.of(translator, sys.argv[3])
lines = open(sys.argv[2], encoding='utf-8').read().splitlines()
translator.warm_up()
for asked in sys.stdin:
    size, count = map(int, asked.split())
    times = []
    for first in range(0, count, size):
        began = time.perf_counter()
        translator(lines[first : first + size])
        times.append(time.perf_counter() - began)
    print(json.dumps(times), flush=True)
"""


def peer_app() -> Any:
    """CTranslate2 behind Starlette, for uvicorn, with the run in $CTRANSLATE2_RUN and $CTRANSLATE2_TYPE."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from flax_transformer import Translator
    from flax_transformer.interop.ctranslate2 import CTranslate2Translator

    run = Translator.from_run(os.environ['CTRANSLATE2_RUN'])
    translator = CTranslate2Translator.of(run, os.environ['CTRANSLATE2_TYPE'])

    def translate(line: str) -> str:
        return translator(line).text

    async def endpoint(request: Any) -> Any:
        return JSONResponse({'translatedText': await asyncio.to_thread(translate, (await request.json())['q'])})

    return Starlette(routes=[Route('/translate', endpoint, methods=['POST'])])


async def load(port: int, lines: list[str], clients: int, fields: dict[str, str]) -> list[float]:
    """Seconds of each request; every client asks for the next line that none has asked for."""
    left, seconds = iter(lines), []

    async def client() -> None:
        reader, writer = await asyncio.open_connection('127.0.0.1', port)
        for line in left:
            body = json.dumps({'q': line, **fields}).encode()
            began = time.perf_counter()
            writer.write(b'POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n')
            writer.write(b'Content-Length: %d\r\n\r\n%b' % (len(body), body))
            head = await reader.readuntil(b'\r\n\r\n')
            length = next(int(each[15:]) for each in head.lower().split(b'\r\n') if each.startswith(b'content-length:'))
            reply = await reader.readexactly(length)
            seconds.append(time.perf_counter() - began)
            if b' 200 ' not in head[:16]:
                sys.exit(f'{head.decode()}{reply.decode()}')
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('lines', type=Path)
    parser.add_argument('--clients', type=int, nargs='+', default=[1, 8, 64])
    parser.add_argument('--requests', type=int, default=512)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--ctranslate2', choices=['float32', 'int8'])
    parser.add_argument('--languages', nargs=2, default=['en', 'de'])
    arguments = parser.parse_args()
    lines = arguments.lines.read_text(encoding='utf-8').splitlines()[: arguments.requests]
    fields = dict(zip(('source', 'target'), arguments.languages, strict=True))
    worker = [sys.executable, '-c', DIRECT, arguments.run, str(arguments.lines)]
    serve = ['-m', 'flax_transformer', 'serve', arguments.run, '--limits.cache', '0', '--port']
    workers = {'direct': Worker(*worker)}
    servers = {'server': [*serve, '5601']}
    if kind := arguments.ctranslate2:
        workers['ctranslate2'] = Worker(*worker, kind)
        servers['backend'] = [*serve, '5603', '--backend', 'ctranslate2', '--compute-type', kind]
        servers['peer'] = ['-m', 'uvicorn', '--factory', 'serve:peer_app', '--port', '5602', '--no-access-log']
    environment = {**os.environ, 'CTRANSLATE2_RUN': arguments.run, 'CTRANSLATE2_TYPE': kind or ''}
    here = Path(__file__).parent
    environment['PYTHONPATH'] = os.pathsep.join([str(here), str(here.parent), os.environ.get('PYTHONPATH', '')])
    processes = [subprocess.Popen([sys.executable, *each], env=environment) for each in servers.values()]
    ports = {name: int(each[each.index('--port') + 1]) for name, each in servers.items()}
    try:
        print(
            json.dumps(
                {
                    str(clients): measure(workers, ports, lines, clients, fields, arguments.rounds)
                    for clients in arguments.clients
                }
            )
        )
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        for worker in workers.values():
            worker.close()


def measure(
    workers: dict[str, Worker],
    ports: dict[str, int],
    lines: list[str],
    clients: int,
    fields: dict[str, str],
    rounds: int,
) -> dict[str, Any]:
    """The figures of a number of clients."""
    rates = {name: [] for name in (*workers, *ports)}
    waits = {name: [] for name in rates}
    cpu = 0.0
    for turn in range(rounds + 1):
        found = {}
        for name, worker in workers.items():
            times = worker.ask(f'{clients} {len(lines)}')
            found[name] = (sum(times), times)
        for name, port in ports.items():
            wait_until_ready(port, lines[0], fields)
            began, cpu_before = time.perf_counter(), time.process_time()
            seconds = asyncio.run(load(port, lines, clients, fields))
            found[name] = (time.perf_counter() - began, seconds)
            cpu += time.process_time() - cpu_before if turn and name == 'server' else 0.0
        for name, (total, each) in found.items() if turn else ():  # the first turn is to warm up
            rates[name].append(len(lines) / total)
            waits[name] += each
    medians = {name: statistics.median(values) for name, values in rates.items()}
    searches = {'server': 'direct', 'backend': 'ctranslate2', 'peer': 'ctranslate2'}
    return {
        'lines_per_second': {name: round(value, 1) for name, value in medians.items()},
        'share_of_direct': {name: round(medians[name] / medians[searches[name]], 3) for name in ports},
        'median_ms': {name: round(1000 * statistics.median(each), 1) for name, each in waits.items()},
        'p99_ms': {name: round(1000 * sorted(each)[int(0.99 * len(each))], 1) for name, each in waits.items()},
        'client_cpu_share': round(cpu / sum(len(lines) / rate for rate in rates['server']), 3),
    }


def wait_until_ready(port: int, line: str, fields: dict[str, str]) -> None:
    for _ in range(600):
        try:
            if port == 5602 or asyncio.run(exchange(port, request('/health', method='GET')))[0] == '200':
                return asyncio.run(load(port, [line], 1, fields))
        except OSError:
            pass
        time.sleep(0.5)
    sys.exit(f'nothing answers on port {port}')


if __name__ == '__main__':
    main()

"""What real clients of DeepL and LibreTranslate get from a server that this starts.

    python benchmarks/clients.py RUN [--languages en de] [--python PYTHON] [--weblate PYTHON] [--options ...]

Calls by `deepl` and `libretranslatepy` run in an interpreter that has them (--python); those of Weblate's services
DeepL and LibreTranslate, its own code without its database, in one that has Weblate (--weblate); those of `deepl-node`
by node, from a temporary folder into which npm installs it. What is missing is skipped, and named. Prints what each
call gave, then one line of JSON: how many calls of each client succeeded, and what failed. Ends with 1 if any did, or
if two clients got different translations of a text.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from measuring import missing

HERE = Path(__file__).parent
PORT = 5605
NODE = 'deepl-node@1.28.0'
TEXT = 'The dog sleeps in the\nbig garden.'


def calls(command: list[str], given: dict[str, Any]) -> list[dict[str, Any]]:
    """What a client printed of its calls: a line of JSON for each, with `call`, and `got` or `fault`."""
    done = subprocess.run([*command, json.dumps(given)], capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"call"')]
    if done.returncode:
        lines.append({'call': 'end', 'fault': done.stderr.strip().splitlines()[-1:] or done.returncode})
    return lines


def node_command(folder: str) -> list[str] | str:
    """How to run the calls of deepl-node, or a sentence about what is missing."""
    if not (shutil.which('npm') and shutil.which('node')):
        return 'npm or node is not installed'
    command = ['npm', 'install', '--prefix', folder, '--fetch-retries', '1', '--fetch-timeout', '20000', NODE]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode:
        return f'npm cannot install {NODE}: {installed.stderr.strip()[-200:]}'
    shutil.copy(HERE / 'clients_node.cjs', folder)
    return ['node', f'{folder}/clients_node.cjs']


def commands_of(given: argparse.Namespace, folder: str) -> dict[str, list[str] | str]:
    commands: dict[str, list[str] | str] = {}
    for name, python, packages in (
        ('deepl', given.python, ['deepl']),
        ('libretranslatepy', given.python, ['libretranslatepy']),
        ('weblate', given.weblate, ['weblate', 'django']),
    ):
        lacks = missing(python, *packages)
        commands[name] = lacks or [
            python,
            str(HERE / f'clients_{"weblate" if name == "weblate" else "python"}.py'),
            name,
        ]
    return commands | {'deepl-node': node_command(folder)}


def wait_until_warm(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{PORT}/health'):
                return
        except OSError:
            time.sleep(0.5)
    sys.exit('the server has ended')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('--languages', nargs=2, default=['en', 'de'])
    parser.add_argument('--python', default=sys.executable)
    parser.add_argument('--weblate', default=sys.executable)
    parser.add_argument('--options', nargs=argparse.REMAINDER, default=[], help='of `serve`; last')
    given = parser.parse_args()
    source, target = given.languages
    command = [sys.executable, '-m', 'flax_transformer', 'serve', given.run, '--port', str(PORT), *given.options]
    clients: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_warm(process)
            for name, command in commands_of(given, folder).items():
                if isinstance(command, str):
                    clients[name] = {'skipped': command}
                    continue
                fields = {'url': f'http://127.0.0.1:{PORT}', 'source': source, 'target': target, 'text': TEXT}
                done = calls(command, fields | {'folder': folder})
                for each in done:
                    print(f'{name} {each["call"]}: {each.get("fault") or each["got"]}')
                faults = {each['call']: each['fault'] for each in done if 'fault' in each}
                clients[name] = {'calls': len(done) - len(faults), 'faults': faults}
                clients[name]['same'] = next((each['got'] for each in done if each['call'] == 'text'), None)
        finally:
            process.kill()
    texts = {client.pop('same') for client in clients.values() if client.get('same')}
    print(json.dumps({'clients': clients, 'translations': sorted(texts)}))
    if len(texts) > 1 or any(client.get('faults') for client in clients.values()):
        sys.exit(1)


if __name__ == '__main__':
    main()

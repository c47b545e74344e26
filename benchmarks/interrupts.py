"""Commands, interrupted by Ctrl-C at random moments: never a signal's death, never a traceback, no cut line.

    python benchmarks/interrupts.py [--tries 10] [--caches cold warm] [--commands warmup train ...] [--seed 0]

Each try starts the command in a process group of its own, as a terminal does, waits for a random part of the time that
the command takes if left alone, and sends SIGINT to the group. Time is counted from where the command begins to catch
it; Ctrl-C in the first milliseconds, while Python starts, ends with Python's own traceback. `cold` gives each try an
empty cache of compiled programs, `warm` a full one. Sound ends are exit code 130 (interrupted) and 0 (it was almost
done); of training, 75 (saved) too. What a command prints on standard output must be whole lines of what it prints if
left alone.

The models are the tests' golden run and small ones that are trained first: a classifier, and for `transcribe` and
`detect` one of tones and one of melodies. Prints one line of JSON: for each command and cache the exit codes and the
longest time from the signal to the end in seconds; and everything that was not sound.
"""

import argparse
import collections
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import write_config
from num2words import num2words
from scipy.io import wavfile

sys.path.insert(0, str(Path(__file__).parents[1] / 'tests'))

from tiny_classification import write_texts

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / 'tests' / 'golden' / 'number_words'
READY = 9  # the descriptor on which a command says that it begins
PROGRAM = f"""
import os, sys
first = ('import', 'flax_transformer.cli.process')  # within `launch`, which catches Ctrl-C
sys.addaudithook(lambda event, args: (event, *args[:1]) == first and os.write({READY}, b'.'))
from flax_transformer.cli import launch
launch()
"""
SIGNS = (
    'Traceback (most recent call last)',
    'Exception ignored',
    'Fatal Python error',
    'terminate called',
    'KeyboardInterrupt',
)
MOST_STARTS = 3  # a command may end before the moment of its interrupt
PATIENCE = 300  # seconds from the signal to the end, after which a command counts as hanging
# Steps enough to be interrupted in, of small models.
CONFIGS = {
    'config': 'kill_config.everything_on(HERE, 40)',
    'classifier': 'tiny_classification.tiny_config(HERE)',
    'tones': 'tiny_speech.tiny_config(steps=4, evaluate_every=4)',
    'melodies': 'tiny_trigger_word.tiny_config(steps=4, evaluate_every=4)',
}
# {top}: files that are only read; {own}: a new folder for each try. What follows `<` is the standard input.
FILES = '--source {top}/held.en --reference {top}/held.de'
COMMANDS = {
    'new': 'new {own}/mine.py --source {top}/train.en --target {top}/train.de',
    'prepare': 'prepare {top}/config.py --workdir {own}/run',
    'show': 'show {top}/config.py',
    'plan': 'plan {top}/config.py',
    'train': 'train {top}/config.py --workdir {own}/run',
    'check': 'check {top}/config.py',
    'clean': 'clean {top}/config.py --output {own}/clean',
    'translate': 'translate {top}/run < {top}/held.en',
    'evaluate': 'evaluate {top}/run --examples 0 ' + FILES,
    'compare': 'compare {top}/run {top}/held.en --trials 200 --resamples 100 ' + FILES,
    'curves': 'curves {top}/run --output {own}/curves.png',
    'analyze': 'analyze {top}/run --widths 1 2 ' + FILES,
    'score': 'score {top}/run --source {top}/held.en --target {top}/held.de',
    'average': 'average {top}/run {own}/average --last 1',
    'warmup': 'warmup {top}/run',
    'export': 'export {top}/run {own}/program',
    'import-huggingface': 'import-huggingface {top}/marian {own}/run',
    'export-huggingface': 'export-huggingface {top}/run {own}/marian',
    'classify': 'classify {top}/classifier < {top}/held.en',
    'transcribe': 'transcribe {top}/tones {top}/long.wav {top}/short.wav',
    'detect': 'detect {top}/melodies {top}/long.wav --threshold 0.1',
    'completion': 'completion bash',
    'help': 'help train',
}
PRINTS_LINES = ('translate', 'score', 'classify', 'transcribe', 'detect', 'completion', 'help')


class End(NamedTuple):
    """How one start of a command ended."""

    code: int
    out: str
    err: str
    seconds: float  # since it began
    waited: float  # since the signal


def write_files(top: Path) -> None:
    """The corpus, its config, the run and its Marian folder, two recordings, and small models of other tasks."""
    for name, numbers in (('train', range(0, 6000, 3)), ('held', range(1, 600, 5))):
        for language in ('en', 'de'):
            lines = ''.join(num2words(number, lang=language) + '\n' for number in numbers)
            (top / f'{name}.{language}').write_text(lines, encoding='utf-8')
    shutil.copytree(RUN, top / 'run')
    write_texts(top)
    for name, call in CONFIGS.items():
        write_config(top / f'{name}.py', call)
    for name, seconds in (('long', 120), ('short', 2)):
        wavfile.write(top / f'{name}.wav', 8000, (3000 * np.sin(np.arange(8000 * seconds) / 9)).astype(np.int16))
    (top / 'full').mkdir()
    for name, line in (
        ('export-huggingface', 'export-huggingface {top}/run {top}/marian'),
        ('train', 'train {top}/classifier.py --workdir {top}/classifier'),
        ('train', 'train {top}/tones.py --workdir {top}/tones'),
        ('train', 'train {top}/melodies.py --workdir {top}/melodies'),
    ):
        ended = start(name, line, top, top, top / 'full', None)
        assert ended.code == 0, ended.err


def start(name: str, line: str, top: Path, own: Path, cache: Path, moment: float | None) -> End:
    """Starts a command and, `moment` seconds later, interrupts it; None: leaves it alone."""
    command, _, stdin = line.format(top=top, own=own).partition(' < ')
    environment = {**os.environ, 'XDG_CACHE_HOME': str(cache), 'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(ROOT)}
    read, write = os.pipe()
    out, err = own / 'stdout', own / 'stderr'
    with out.open('wb') as out_file, err.open('wb') as err_file, open(stdin or os.devnull, 'rb') as in_file:
        process = subprocess.Popen(
            [sys.executable, '-c', f'import os; os.dup2({write}, {READY}){PROGRAM}', *command.split()],
            stdin=in_file,
            stdout=out_file,
            stderr=err_file,
            env=environment,
            pass_fds=(write,),
            start_new_session=True,
            cwd=own,
        )
    os.close(write)
    select.select([read], [], [])
    began = time.monotonic()
    try:
        process.wait(moment)
        waited = 0.0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        signaled = time.monotonic()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        waited = time.monotonic() - signaled
    os.close(read)
    texts = [file.read_text(encoding='utf-8', errors='replace') for file in (out, err)]
    return End(process.returncode, *texts, time.monotonic() - began, waited)


def faults(name: str, ended: End, alone: End) -> list[str]:
    """What is not sound about an interrupted command."""
    found = [] if ended.code in ((0, 130, 75) if name == 'train' else (0, 130)) else [f'exit code {ended.code}']
    found += [sign for sign in SIGNS if sign in ended.out + ended.err]
    found += ['hung'] if ended.waited >= PATIENCE else []
    found += ['went on'] if ended.code == 0 and ended.waited > 0.3 * alone.seconds + 5 else []
    is_part = alone.out.startswith(ended.out) and (not ended.out or ended.out.endswith('\n'))
    return found + (['cut lines'] if name in PRINTS_LINES and not is_part else [])


def interrupt(name: str, cache: str, tries: int, top: Path, draw: random.Random) -> tuple[dict, list[dict]]:
    """The summary of a command's tries, and those that were not sound."""
    line = COMMANDS[name]

    def begin(moment: float | None, own: Path) -> End:
        own.mkdir(exist_ok=True)
        folder = top / 'full' if cache == 'warm' else Path(tempfile.mkdtemp(dir=own))
        return start(name, line, top, own, folder, moment)

    if cache == 'warm':
        begin(None, Path(tempfile.mkdtemp(dir=top)))
    alone = begin(None, Path(tempfile.mkdtemp(dir=top)))
    assert alone.code == 0, f'{name} ends with {alone.code} if left alone: {alone.err}'
    codes: collections.Counter[int] = collections.Counter()
    unsound, longest = [], 0.0
    for _ in range(MOST_STARTS * tries):
        if codes.total() == tries:
            break
        own, moment = Path(tempfile.mkdtemp(dir=top)), draw.uniform(0, alone.seconds)
        ended = begin(moment, own)
        if not ended.waited and ended.code == 0:  # the machine was busier before
            alone = alone._replace(seconds=min(alone.seconds, ended.seconds))
            shutil.rmtree(own)
            continue
        codes[ended.code] += 1
        longest = max(longest, ended.waited)
        found = faults(name, ended, alone)
        if found:
            place = {'command': name, 'cache': cache, 'moment': round(moment, 3)}
            unsound.append({**place, 'faults': found, 'code': ended.code, 'err': ended.err[-3000:]})
        shutil.rmtree(own)
    summary = {'codes': dict(codes), 'alone': round(alone.seconds, 1), 'longest_wait': round(longest, 1)}
    return summary, unsound


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--tries', type=int, default=10)
    parser.add_argument('--caches', nargs='+', choices=['cold', 'warm'], default=['cold', 'warm'])
    parser.add_argument('--commands', nargs='+', choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts jobs in the background so
        signal.signal(signal.SIGINT, signal.default_int_handler)
    began, draw = time.monotonic(), random.Random(options.seed)
    summaries: dict[str, dict] = {}
    unsound = []
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        write_files(top)
        for cache in options.caches:
            for name in options.commands:
                summaries[f'{name} {cache}'], found = interrupt(name, cache, options.tries, top, draw)
                unsound += found
                print(name, cache, summaries[f'{name} {cache}'], len(found), 'unsound', file=sys.stderr)
    interrupts = sum(sum(each['codes'].values()) for each in summaries.values())
    result = {'interrupts': interrupts, 'unsound': len(unsound), 'commands': summaries, 'first': unsound[:20]}
    print(json.dumps({**result, 'seconds': round(time.monotonic() - began, 1)}))


if __name__ == '__main__':
    main()

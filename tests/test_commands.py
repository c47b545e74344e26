"""Every command of every document: its arguments are parsed, and it is run, or named here with the reason why not."""

import argparse
import ast
import importlib
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
import zstandard
from conftest import ROOT, copy_corpus, made_once
from documented_commands import blocks, commands, filled, lines
from num2words import num2words
from scipy.io import wavfile
from tiny_embeddings import write_text

from benchmarks.measuring import write_config
from flax_transformer import WordVectors
from flax_transformer.cli import COMMANDS, main, process

GOLDEN = ROOT / 'tests' / 'golden' / 'number_words'
LINES = lines()
# Runs that the documents name, by task; all others are of translation.
RUNS = {
    'classification': ('films', 'rt_polarity'),
    'speech': ('digits',),
    'trigger_word': ('amelia',),
    'embeddings': ('words', 'words_tree', 'skip_gram', 'cbow', 'glove', 'glove-1'),
}
NOT_RUN = {
    r'^(pip|make|\.|cat|seq|cp) ': 'builds environments or sites, or takes hours',
    r'^sbatch|^ct2-|examples/|num-processes': 'wants a cluster or another program',
    r'train (?!my_config)|distill|--init-from|--training\.profile': 'trains for minutes to days',
    r'prepare |flores200|--download': 'downloads',
    r'flax-transformer serve|^curl': 'runs until it is stopped, or asks such a server',
    r'new .*--task': 'wants tables and recordings',
    r'--topology|gcloud|kaggle|/content': 'wants libtpu, or a machine in the cloud',
    r'--backend ctranslate2|--format web': 'wants the extra ctranslate2, or ONNX Runtime for the web',
    r'--watch': 'ends when training does',
    r'arecord|--show-attention': 'wants a microphone or a terminal',
    r'benchmarks': 'takes minutes to hours',
    r'-m pytest': 'is run by the tests themselves',
    r'exported|pairs\.(py|tsv)|--project': 'is a file that the page makes',
    r'average .* --': 'wants that many checkpoints',
    r'analogy|evaluate (runs/words|vectors)|glove': 'wants the vocabulary of a real corpus',
    r'tatoeba|multilingual|marian_base|runs/(marian|tuned)|nllb|madlad|french': 'wants a corpus, or a model',
    r'plot (confusion|detection)': 'wants scores of another run',
    r'calibrate |plot quality': 'writes into a run, or wants one where it has',
    r'(show|plan) wmt14': 'compiles for minutes',
    r'^flax-transformer( \w+)?$': 'is the name of a command, in a sentence',
}
RECORDING = 3000 * np.sin(np.arange(8000) / 9)


class Parsed(Exception):
    """The arguments are sound; what the command would do now is not done."""


@pytest.fixture(scope='module')
def workplace(shared_folder: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with what the documents' commands are about. Read it only."""
    fixtures = {'classification': 'tiny_classifier', 'speech': 'tiny_transcriber', 'trigger_word': 'tiny_detector'}
    runs = {task: request.getfixturevalue(name) for task, name in fixtures.items()}
    return made_once(shared_folder / 'workplace', lambda folder: make_workplace(folder, runs))


def make_workplace(folder: Path, runs: dict[str, Path]) -> None:
    copy_corpus(folder, pairs=200)
    write_text(folder)
    for language in ('en', 'de', 'fr'):
        lines = ''.join(f'{num2words(number, lang=language)}\n' for number in range(300))
        for name in ('train', 'test', 'mine', 'a', 'b'):
            (folder / f'{name}.{language}').write_text(lines, encoding='utf-8')
    (folder / 'terms.tsv').write_text('forty-two\tzweiundvierzig\n', encoding='utf-8')
    (folder / 'lines').write_text('forty-two\n\nnine hundred\n', encoding='utf-8')
    (folder / 'page.html').write_text('<p>forty-<b>two</b></p>', encoding='utf-8')
    (folder / 'in.xml').write_text('<p>forty-<b>two</b></p>', encoding='utf-8')
    (folder / 'film.srt').write_text('1\n00:00:01,000 --> 00:00:02,000\nsix\n', encoding='utf-8')
    (folder / 'part-1.zst').write_bytes(zstandard.compress(b'forty-two\n'))
    for name in ('a', 'b', 'recording'):
        wavfile.write(folder / f'{name}.wav', 8000, RECORDING.astype(np.int16))
    assert main(['--quiet', 'export-huggingface', str(GOLDEN), str(folder / 'opus-mt-en-de')]) == 0
    write_config(folder / 'my_config.py', 'conftest.copy_config(HERE, steps=4, evaluate_every=2, checkpoint_every=2)')
    write_config(folder / 'vectors.py', 'tiny_embeddings.tiny_config(HERE)')
    assert main(['--quiet', 'train', str(folder / 'vectors.py'), '--workdir', str(folder / 'vectors')]) == 0
    task_of = {name: task for task, names in RUNS.items() for name in names}
    (folder / 'runs').mkdir()
    for name in {name for line in LINES for name in re.findall(r'runs/([\w-]+)', line)}:
        run = runs.get(task_of.get(name), GOLDEN)
        (folder / 'runs' / name).symlink_to('../vectors' if task_of.get(name) == 'embeddings' else run)
    (folder / 'RUN').symlink_to(GOLDEN)
    (folder / 'Helsinki-NLP').mkdir()
    (folder / 'Helsinki-NLP' / 'opus-mt-de-fr').symlink_to(GOLDEN)
    for name in ('french.py', 'tuned.py', 'circle.py'):
        (folder / name).symlink_to('my_config.py')
    (folder / 'examples').symlink_to(ROOT / 'examples')
    WordVectors.from_run(folder / 'vectors').save(folder / 'vectors.bin')


def parse_ours(argv: list[str]) -> None:
    """Raises Parsed, or returns where the command needs no more than its arguments."""
    if main(argv) != 0:
        pytest.fail(f'{argv}: the command refuses its arguments')


def parse_script(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a Python script of ours parse its arguments; those that are a config's go through `train`."""
    script, *rest = argv
    if script == '-c':
        compile(rest[0], 'command', 'exec')
        return
    name = f'{rest.pop(0).replace(".", "/")}.py' if script == '-m' else script
    file = ROOT / name if (ROOT / name).exists() else (ROOT / name).with_suffix('') / '__main__.py'
    if name.startswith('pytest') or not file.exists():
        assert name in ('pytest.py', 'exported/load.py', 'pairs.py'), f'{name} does not exist'
        assert all((ROOT / each).exists() for each in rest if each.startswith('tests/')), rest
        return
    if name == 'train.py':
        return parse_ours(['train', *runpy.run_path(str(file))['positional'](rest)])
    code = file.read_text(encoding='utf-8')
    if 'argparse' not in code:
        assert not rest or '(*sys.argv[1:])' in code, f'{name} takes no arguments'
        return
    original = argparse.ArgumentParser.parse_known_args

    def parse_known(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        options, fields = original(self, args, namespace)
        if fields:
            parse_ours(['train', options.config, *fields])
        raise Parsed

    def parse(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        _, left = original(self, args, namespace)
        assert not left, f'{name}: no arguments {left}'
        raise Parsed

    monkeypatch.setattr(process, 'run', lambda main, **_: main())  # the handlers of signals remain pytest's
    monkeypatch.setattr(argparse.ArgumentParser, 'parse_known_args', parse_known)
    monkeypatch.setattr(argparse.ArgumentParser, 'parse_args', parse)
    monkeypatch.setattr(sys, 'argv', [str(file), *rest])
    monkeypatch.setattr(sys, 'path', [str(file.parent), *sys.path])
    try:
        runpy.run_path(str(file), run_name='__main__')
    except ModuleNotFoundError as error:
        pytest.skip(f'{error.name} is not installed')


@pytest.mark.parametrize('line', LINES, ids=str)
def test_a_command_is_one_that_there_is(line: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = tyro.cli

    def parse(*args: Any, **rest: Any) -> Any:
        original(*args, **rest)
        raise Parsed

    monkeypatch.setattr(tyro, 'cli', parse)
    monkeypatch.chdir(workplace)
    monkeypatch.setattr(os, 'environ', dict(os.environ))
    for program, *argv in commands(line):
        try:
            if program == 'flax-transformer':
                assert not argv or argv[0] in COMMANDS
                if len(argv) > 1:  # else the text is about the command
                    parse_ours(argv)
            elif program == 'python':
                parse_script(argv, monkeypatch)
            elif program == 'make' and argv != ['reproduce']:
                subprocess.run(['make', '-n', *argv], cwd=ROOT, check=True, capture_output=True)
        except Parsed:
            continue
        except SystemExit as ended:
            if ended.code:
                pytest.fail(f'{line} ends with {ended.code}')


@pytest.mark.parametrize(('page', 'block'), blocks('python'), ids=lambda each: getattr(each, 'stem', 'block'))
def test_python_in_a_document_compiles_and_its_imports_are_there(page: Path, block: str) -> None:
    compile(block, str(page), 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            unknown = [each.name for each in node.names if not hasattr(module, each.name)]
            assert not [name for name in unknown if importlib.util.find_spec(f'{node.module}.{name}') is None]
    if 'def get_config' in block:
        names: dict[str, Any] = {}
        exec(block, names)
        names['get_config']()


def made_by(line: str) -> list[str]:
    """Returns the files and folders that a line makes, which must not be there before."""
    found = re.findall(r'--(?:workdir|output) (\S+)', line)
    for words in commands(line):
        found += words[2:3] if words[1:2] == ['new'] else []
        found += words[3:4] if words[1:2] in (['export'], ['import-huggingface'], ['export-huggingface']) else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize('line', [line for line in LINES if not any(re.search(each, line) for each in NOT_RUN)])
def test_a_command_runs(line: str, workplace: Path, tmp_path: Path) -> None:
    here = shutil.copytree(workplace, tmp_path / 'here', symlinks=True)
    for name in made_by(line):
        (here / name).unlink(missing_ok=True)
    binaries = tmp_path / 'bin'
    binaries.mkdir()
    for name, arguments in (('flax-transformer', '-m flax_transformer'), ('python', '')):
        (binaries / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (binaries / name).chmod(0o755)
    environment = os.environ | {'PATH': f'{binaries}:{os.environ["PATH"]}', 'PYTHONPATH': str(ROOT)}
    (here / 'train.py').symlink_to(ROOT / 'train.py')
    done = subprocess.run(
        ['bash', '-o', 'pipefail', '-c', filled(line)],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_reason_is_that_of_some_command() -> None:
    assert not [each for each in NOT_RUN if not any(re.search(each, line) for line in LINES)]

"""Every command of every document: its arguments are parsed, and it is run, or named here with the reason why not."""

import argparse
import ast
import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tyro
from conftest import ROOT, copy_corpus, made_once
from documented_commands import blocks, commands, lines
from tiny_embeddings import write_text

from benchmarks.measuring import write_config
from flax_transformer import WordVectors
from flax_transformer.cli import COMMANDS, main

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
    r'^pip |^make |^\. ': 'builds environments or sites, or takes hours; each target is looked up',
    r'train (?!my_config)': 'trains for minutes to days; each task is trained small by its own tests',
    r'prepare (multi30k|tatoeba|tfds:)': 'downloads',
    r'--parallel\.num-processes|^sbatch|examples/|ray': 'wants a cluster',
    r'--topology': 'wants libtpu',
    r'ctranslate2|ct2-': 'wants the extra ctranslate2',
    r'--watch': 'ends when training does',
    r'arecord': 'wants a microphone',
    r'benchmarks/|-m benchmarks': 'takes minutes to hours; tests/benchmarks/test_smallest.py runs it small',
    r'-m pytest': 'is run by `make test` and `make test-slow`',
    r'notebooks/': 'tests/test_notebooks.py runs the notebooks',
    r'tatoeba|wmt14|multi30k': 'wants a corpus or a run of it',
}


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
    write_config(folder / 'my_config.py', 'conftest.copy_config(HERE, steps=4, evaluate_every=2, checkpoint_every=2)')
    write_config(folder / 'vectors.py', 'tiny_embeddings.tiny_config(HERE)')
    assert main(['--quiet', 'train', str(folder / 'vectors.py'), '--workdir', str(folder / 'vectors')]) == 0
    task_of = {name: task for task, names in RUNS.items() for name in names}
    (folder / 'runs').mkdir()
    for name in {name for line in LINES for name in re.findall(r'runs/([\w-]+)', line)}:
        run = runs.get(task_of.get(name), GOLDEN)
        (folder / 'runs' / name).symlink_to('../vectors' if task_of.get(name) == 'embeddings' else run)
    (folder / 'RUN').symlink_to(GOLDEN)
    (folder / 'french.py').symlink_to('my_config.py')
    WordVectors.from_run(folder / 'vectors').save(folder / 'vectors.bin')


def parse_ours(argv: list[str]) -> None:
    """Raises Parsed, or returns where the command needs no more than its arguments."""
    if main(argv) != 0:
        pytest.fail(f'{argv}: the command refuses its arguments')


def parse_script(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a Python script of ours parse its arguments; those that are a config's go through `train`."""
    script, *rest = argv
    name = f'{rest.pop(0).replace(".", "/")}.py' if script == '-m' else script
    file = ROOT / name if (ROOT / name).exists() else (ROOT / name).with_suffix('') / '__main__.py'
    if name.startswith('pytest') or not file.exists():
        assert name in ('pytest.py', 'exported/load.py', 'pairs.py'), f'{name} does not exist'
        assert all((ROOT / each).exists() for each in rest if each.startswith('tests/')), rest
        return
    if name == 'train.py':
        return parse_ours(['train', *runpy.run_path(str(file))['positional'](rest)])
    if 'argparse' not in file.read_text(encoding='utf-8'):
        assert not rest, f'{name} takes no arguments'
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
            assert not [each.name for each in node.names if not hasattr(module, each.name)], node.module
    if 'def get_config' in block:
        names: dict[str, Any] = {}
        exec(block, names)
        names['get_config']()

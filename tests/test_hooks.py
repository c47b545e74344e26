"""A library call leaves its caller's hooks, handlers, loggers and filters as they were, whatever happens in it.

The calls are made in a Python of their own: in this one an earlier test may have changed what is compared.
"""

import importlib.util
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from absl import logging as absl_logging
from conftest import ROOT, TESTS
from tiny_embeddings import tiny_config, write_text

import flax_transformer
from flax_transformer import Classifier, Detector, Transcriber, Translator, UserError, WordVectors

MARIAN = TESTS / 'fixtures' / 'marian'
HAS_MARIAN = all(importlib.util.find_spec(name) for name in ('safetensors', 'sentencepiece'))
CALLS = ('translator', 'marian', 'train', 'transcriber', 'detector', 'classifier', 'word_vectors', 'damaged')


def settings() -> dict[str, Any]:
    """What a caller may have set: hooks, signal handlers, the state of loggers, filters of warnings."""
    loggers = [logging.getLogger(name) for name in (None, 'absl', 'asyncio', 'jax', 'py.warnings')]
    return {
        'sys.excepthook': sys.excepthook,
        'sys.unraisablehook': sys.unraisablehook,
        'threading.excepthook': threading.excepthook,
        'verbosity of absl': absl_logging.get_verbosity(),
        'filters of warnings': list(warnings.filters),
        **{number.name: signal.getsignal(number) for number in signal.Signals},
        **{
            f'logger {logger.name}': (logger.level, logger.disabled, logger.handlers[:], logger.filters[:])
            for logger in loggers
        },
    }


def make_calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """The public entry points, on the runs in `folder`."""
    write_text(folder)
    calls = {
        'translator': lambda: Translator.from_run(folder / 'copy')(['a b']),
        'train': lambda: flax_transformer.train(tiny_config(folder, steps=2), folder / 'words'),
        'transcriber': lambda: Transcriber.from_run(folder / 'tiny_transcriber'),
        'detector': lambda: Detector.from_run(folder / 'tiny_detector'),
        'classifier': lambda: Classifier.from_run(folder / 'tiny_classifier')(['good']),
        'word_vectors': lambda: WordVectors.from_run(folder / 'words'),
        'damaged': lambda: Translator.from_run(folder / 'damaged'),
    }
    return calls | ({'marian': lambda: Translator.from_marian(MARIAN)} if HAS_MARIAN else {})


def damaged(run: Path, copy: Path) -> None:
    """A run whose checkpoints have no checksums, and for Orbax alone to find empty files in."""
    shutil.copytree(run, copy)
    for manifest in copy.rglob('manifest.json'):
        manifest.unlink()
    for file in copy.glob('checkpoints/*/params/**/d/*'):
        file.write_bytes(b'')


def changes(call: Callable[[], Any]) -> list[str]:
    """Makes a call; the names of what it changed."""
    before = settings()
    try:
        call()
        failed = []
    except UserError:
        failed = ['failed']
    after = settings()
    return failed + [name for name in before if before[name] != after[name]]


def in_a_thread(call: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call).result()


def report(folder: Path) -> None:
    """Makes every call here, some of them in a thread too, prints as JSON what each has changed, and fails."""
    calls = make_calls(folder)
    found = {name: changes(call) for name, call in calls.items()}
    for name in ('classifier', 'damaged'):
        found[f'{name} in a thread'] = changes(lambda name=name: in_a_thread(calls[name]))
    print(json.dumps(found))
    raise RuntimeError('Event loop is closed')


def run_python(code: str, *arguments: Path | str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, '-c', code, *map(str, arguments)],
        env={**os.environ, 'PYTHONPATH': f'{ROOT}{os.pathsep}{TESTS}'},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope='module')
def found(
    tmp_path_factory: pytest.TempPathFactory,
    copy_run: Path,
    tiny_classifier: Path,
    tiny_detector: Path,
    tiny_transcriber: Path,
) -> dict[str, list[str]]:
    """What each call has changed, in a Python that has just started."""
    folder = tmp_path_factory.mktemp('runs')
    for run in (copy_run, tiny_classifier, tiny_detector, tiny_transcriber):
        (folder / run.name).symlink_to(run)
    damaged(copy_run, folder / 'damaged')
    code = 'import pathlib, sys, test_hooks; test_hooks.report(pathlib.Path(sys.argv[1]))'
    done = run_python(code, folder)
    assert done.returncode == 1, done.stderr
    # The caller's own exception is printed, whatever Orbax's threads print after it.
    assert 'RuntimeError: Event loop is closed' in done.stderr.splitlines(), done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize('call', [*CALLS, 'classifier in a thread', 'damaged in a thread'])
def test_a_call_changes_nothing_of_its_caller(call: str, found: dict[str, list[str]]) -> None:
    if call == 'marian' and not HAS_MARIAN:
        pytest.skip('needs the extra for Marian models')
    assert found[call] == (['failed'] if 'damaged' in call else [])


@pytest.mark.slow
def test_the_command_prints_a_sentence_of_what_orbax_cannot_read_and_no_late_errors(
    copy_run: Path, tmp_path: Path
) -> None:
    damaged(copy_run, tmp_path / 'damaged')
    done = run_python('from flax_transformer.cli import launch; launch()', 'translate', tmp_path / 'damaged')
    assert (done.returncode, 'is damaged, or cannot be read' in done.stderr) == (2, True)
    assert 'Traceback' not in done.stderr

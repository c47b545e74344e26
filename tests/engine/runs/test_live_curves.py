"""Curves are drawn below the cell once a run has reported, and again at the end."""

import json
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from flax_transformer.engine.runs.learning_curves import live_curves


class Handle:
    def __init__(self) -> None:
        self.shown: list[dict] = []
        self.changed = threading.Event()

    def update(self, picture: dict, *, raw: bool) -> None:
        self.shown.append(picture)
        self.changed.set()


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """What IPython's `display` returns."""
    handle, fake = Handle(), ModuleType('IPython.display')

    def display(picture: dict, *, raw: bool, display_id: bool) -> Handle:
        handle.update(picture, raw=raw)
        return handle

    fake.display = display
    package = ModuleType('IPython')
    package.version_info, package.get_ipython = (9, 0, 0), lambda: None  # matplotlib asks
    monkeypatch.setitem(sys.modules, 'IPython', package)
    monkeypatch.setitem(sys.modules, 'IPython.display', fake)
    return handle


def report(run: Path, step: int) -> None:
    with (run / 'metrics.jsonl').open('a') as file:
        file.write(json.dumps({'kind': 'train', 'step': step, 'loss': 1 / step}) + '\n')


def test_curves_are_drawn_whenever_a_run_reports_and_at_the_end(handle: Handle, tmp_path: Path) -> None:
    run = tmp_path / 'run'
    with live_curves(run, every=0.01):
        assert 'image/png' not in handle.shown[0], 'there is no run yet'
        handle.changed.clear()
        run.mkdir()
        report(run, 1)
        assert handle.changed.wait(30)
    report(run, 2)
    assert handle.shown[-1]['image/png'].startswith(b'\x89PNG')


def test_an_error_in_the_block_passes_and_ends_the_watch(handle: Handle, tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), live_curves(tmp_path / 'run', every=0.01):
        raise KeyError
    assert threading.active_count() == before
    assert handle.shown[-1] == {'text/plain': 'nothing was reported yet'}

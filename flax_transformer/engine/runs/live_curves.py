"""Learning curves in a notebook, redrawn while a cell trains."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.engine.monitor.reporter import METRICS_FILE
from flax_transformer.engine.runs.learning_curves import plot_curves
from flax_transformer.plots.look import png

EVERY = 2.0  # seconds between two looks at the metrics


@contextlib.contextmanager
def live_curves(*runs: Path | str, every: float = EVERY) -> Iterator[None]:
    """Inside, the curves of run directories are drawn below the cell, and again whenever a run reports.

        with live_curves('runs/mine'):
            train(config, 'runs/mine')

    The runs need not exist yet. Needs matplotlib and IPython (extra `notebooks`).
    """
    from IPython.display import display

    handle, stop = display(_Picture(), display_id=True), threading.Event()

    def watch() -> None:
        seen = None
        while not stop.wait(every):
            now = [_size(run) for run in runs]
            if now != seen:
                seen = now
                handle.update(_Picture(runs))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        handle.update(_Picture(runs))


class _Picture:
    """The curves of those runs that have reported, as IPython shows them."""

    def __init__(self, runs: tuple[Path | str, ...] = ()) -> None:
        self._png = None
        begun = [run for run in runs if _size(run)]
        if begun:
            with contextlib.suppress(UserError):  # a loss is yet to come
                self._png = png(plot_curves(begun), dpi=72)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        text = {'text/plain': 'learning curves' if self._png else 'nothing was reported yet'}
        return text | ({'image/png': self._png} if self._png else {})


def _size(run: Path | str) -> int:
    file = Path(run) / METRICS_FILE
    return file.stat().st_size if file.is_file() else 0

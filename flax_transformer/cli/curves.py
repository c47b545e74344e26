"""The command `curves`."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.api import open_run

from .options import parse, positional
from .plot import check_format, write_picture

POLL = 2.0  # seconds


@dataclass(frozen=True)
class CurvesOptions:
    """How training runs went, side by side: steps, best scores, speed, and the fields in which they differ.

    --output draws their learning curves; --watch shows both again whenever there is something new. `compare` tests
    whether one run translates better than another.
    """

    output: Path | None = None  # a picture of the curves: .png, .svg or .pdf; needs matplotlib (extra `plots`)
    watch: bool = False  # show them again whenever there is something new, until all runs are finished, or Ctrl-C


def main(argv: list[str]) -> None:
    options = parse('curves', CurvesOptions, argv, most=None)
    if options.output is not None:
        check_format(options.output)

    from flax_transformer.engine.runs.learning_curves import table

    names = positional(argv)
    if options.watch:
        _watch(names, options.output)
        return
    print(table([open_run(name) for name in names]))
    if options.output is not None:
        _draw(names, options.output)
        print(f'the curves are in {options.output}')


def _watch(names: Sequence[str], output: Path | None) -> None:
    from flax_transformer.engine.runs.finished import seems_finished
    from flax_transformer.engine.runs.learning_curves import table

    shown = ''
    try:
        while True:
            runs = [open_run(name) for name in names]
            # Asked before the table, which then has all that a finished run wrote.
            is_over = all(seems_finished(run, run.read_config().training) for run in runs)
            try:
                text = table(runs)
            except UserError as error:  # no records yet
                text = str(error)
                if is_over:
                    raise
            else:
                if text != shown and output is not None:
                    _draw(names, output)
            if text != shown:
                _show(text, shown)
                shown = text
            if is_over:
                return
            time.sleep(POLL)
    except KeyboardInterrupt:
        return


def _show(text: str, shown: str) -> None:
    """Prints the text; in a terminal, instead of what was shown before."""
    is_screen = sys.stdout.isatty() and os.environ.get('TERM') != 'dumb'
    print(('\x1b[H\x1b[J' if is_screen else '\n') * bool(shown) + text, flush=True)


def _draw(names: Sequence[str], output: Path) -> None:
    from flax_transformer.engine.runs.learning_curves import plot_curves

    write_picture(output, lambda: plot_curves(names), what='curves: --output')

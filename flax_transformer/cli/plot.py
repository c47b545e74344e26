"""The commands `plot` and `curves`."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.files import written_whole
from flax_transformer.common.installing import install_command
from flax_transformer.engine.task_value import Picture
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.recipes import package_recipes, recipe_of_run

from .options import parse, positional, read_config, trainer_on_one_device

if TYPE_CHECKING:
    from flax_transformer.plots.look import Figure


FORMATS = ('.png', '.svg', '.pdf')


@dataclass(frozen=True)
class PlotOptions:
    """Draw a picture (needs matplotlib, extra `plots`).

    Of a translation run and a line in quotes: attention, the mean of the last decoder layer's heads; heads, each of
    them; layers, all heads of all layers; alignment, which word comes from which; tree, the n-best translations as
    branches; quality, how sure the model is of each word. Of a run and a recording: speech, what CTC hears in each
    frame; trigger, the probability of the trigger word and the hits. Of runs: curves. Of what `evaluate --json`
    printed: lengths, scores by the length of the source; confusion, spoken words taken for others; detection, false
    rejects against false accepts. Of configs or runs: schedule, the learning rate; positions, the table of
    sinusoids.
    """

    output: Path | None = None  # the picture: .png, .svg or .pdf; by default KIND.png
    translation: str | None = None  # a translation of the line, for attention, heads and layers; default: the run's own


def plot(argv: list[str]) -> None:
    kind, *names = positional(argv) or ['']

    def default(kind: str) -> PlotOptions:
        _picture(kind, names)  # raises if there is none
        return PlotOptions()

    options = parse('plot', PlotOptions, argv, first='KIND NAME ...', default=default, most=None)
    picture = _picture(kind, names)
    takes = picture.takes
    if not names or (not takes.endswith('...') and len(names) != len(takes.split())):
        got = f'got {" ".join(map(repr, names))}' if names else 'got nothing'
        quotes = ', the line in quotes' if takes == 'RUN LINE' else ''
        raise UserError(f'plot {kind}: {got}, expected {takes}{quotes}')
    given = {'translation': options.translation} if options.translation is not None else {}
    if not given.keys() <= {*picture.options}:
        kinds = [kind for kind, other in pictures().items() if 'translation' in other.options]
        raise UserError(f'plot {kind}: --translation has no effect; it is for {", ".join(kinds)}')
    output = options.output or Path(f'{kind}.png')
    _check_format(output)
    _write_picture(output, lambda: picture.draw(*names, **given), what='plot')
    print(f'the picture is in {output}')


def pictures() -> dict[str, Picture]:
    """What each kind draws: of any run or config, and of a run of one task."""
    of_tasks = {kind: picture for recipe in package_recipes() for kind, picture in recipe.pictures.items()}
    return of_tasks | {
        'curves': Picture('RUN RUN ...', _learning_curves),
        'schedule': Picture('CONFIG|RUN ...', _schedule),
        'positions': Picture('CONFIG|RUN ...', _positions),
    }


def _picture(kind: str, names: Sequence[str]) -> Picture:
    known = pictures()
    if kind not in known and names and Path(names[0]).is_dir():
        known |= recipe_of_run(Path(names[0])).pictures
    if kind not in known:
        raise UserError(f'plot: no picture {kind!r}; expected one of {", ".join(known)}.{nearest(kind, known)}')
    return known[kind]


def _learning_curves(*names: str) -> 'Figure':
    from flax_transformer.engine.runs.learning_curves import plot_curves

    return plot_curves([open_run(name).path for name in names])


def _schedule(*names: str) -> 'Figure':
    import numpy as np

    from flax_transformer.plots.curves import plot_schedule

    rates = {}
    longest = max(read_config(name).training.steps for name in names)
    steps = np.unique(np.linspace(1, max(longest, 1), 2000).round().astype(int))
    for name in names:
        trainer = trainer_on_one_device(read_config(name))
        rate = np.asarray(trainer.learning_rate(steps))
        rates[name] = np.where(steps <= trainer.config.training.steps, rate, np.nan)
    return plot_schedule(rates, steps=steps)


def _positions(*names: str) -> 'Figure':
    from flax_transformer.plots.model_parts import plot_positions
    from flax_transformer.transformer.layers import sinusoids

    tables = {}
    for name in names:
        model = read_config(name).model
        layout = getattr(model, 'positions', None)
        if layout in (None, 'learned'):
            got = 'its model has no positions' if layout is None else "model.positions='learned'"
            raise UserError(f'{name}: {got}; expected a table of sinusoids, which a config determines')
        tables[f'{name} ({layout})'] = sinusoids(64, model.d_model, layout)
    return plot_positions(tables)


def _check_format(output: Path) -> None:
    if output.suffix not in FORMATS:
        raise UserError(f'--output {output}: expected a file name ending in {", ".join(FORMATS)}')


def _write_picture(output: Path, draw: 'Callable[[], Figure]', *, what: str) -> None:
    """Draws into a file that is whole at any time, for viewers that read it again; `what` needs matplotlib."""
    try:
        figure = draw()
    except ImportError as error:
        if error.name is not None and not error.name.startswith('matplotlib'):
            raise
        raise UserError(f'{what} needs matplotlib: {install_command("plots")}') from None
    with written_whole(output) as opened:
        figure.savefig(opened, format=output.suffix[1:], dpi=150)


POLL = 2.0  # seconds


@dataclass(frozen=True)
class CurvesOptions:
    """How training runs went, side by side: steps, best scores, speed, and the fields in which they differ.

    --output draws their learning curves; --watch shows both again whenever there is something new. `compare` tests
    whether one run translates better than another.
    """

    output: Path | None = None  # a picture of the curves: .png, .svg or .pdf; needs matplotlib (extra `plots`)
    watch: bool = False  # show them again whenever there is something new, until all runs are finished, or Ctrl-C


def curves(argv: list[str]) -> None:
    options = parse('curves', CurvesOptions, argv, most=None)
    if options.output is not None:
        _check_format(options.output)

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
    is_screen = sys.stdout.isatty() and os.environ.get('TERM') != 'dumb'
    print(('\x1b[H\x1b[J' if is_screen else '\n') * bool(shown) + text, flush=True)


def _draw(names: Sequence[str], output: Path) -> None:
    from flax_transformer.engine.runs.learning_curves import plot_curves

    _write_picture(output, lambda: plot_curves(names), what='curves: --output')

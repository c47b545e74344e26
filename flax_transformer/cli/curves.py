"""`flax-transformer curves RUN RUN ... [--output FILE]`."""

from dataclasses import dataclass
from pathlib import Path

from flax_transformer.cli.options import parse, positional
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.find import open_run, read_run_config

DESCRIPTION = """How training runs went, side by side: a table of steps, best scores, speed, and the fields in which
they differ. --output draws their learning curves. `compare` tests whether one run translates better than another."""
FORMATS = ('.png', '.svg', '.pdf')


@dataclass(frozen=True)
class CurvesOptions:
    output: Path | None = None  # a picture of the curves: .png, .svg or .pdf; needs matplotlib (extra `notebooks`)


def main(argv: list[str]) -> None:
    options = parse('curves', CurvesOptions, argv, first='RUN', description=DESCRIPTION, default=_defaults, most=None)
    if options.output is not None and options.output.suffix not in FORMATS:
        raise UserError(f'--output {options.output}: expected a file name ending in {", ".join(FORMATS)}')

    from flax_transformer.engine.runs.learning_curves import plot_curves, table

    names = positional(argv)
    print(table([open_run(name) for name in names]))
    if options.output is not None:
        try:
            figure = plot_curves(names)
        except ImportError:
            raise UserError('curves: --output needs matplotlib: pip install matplotlib') from None
        figure.savefig(options.output, dpi=150)
        print(f'the curves are in {options.output}')


def _defaults(run: str) -> CurvesOptions:
    read_run_config(run)  # for its errors: no run, or one of a later version
    return CurvesOptions()

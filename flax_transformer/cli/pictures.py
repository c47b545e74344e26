"""Pictures as files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import install_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ('.png', '.svg', '.pdf')


def check_format(output: Path) -> None:
    """Raises UserError for a name of another format."""
    if output.suffix not in FORMATS:
        raise UserError(f'--output {output}: expected a file name ending in {", ".join(FORMATS)}')


def write_picture(output: Path, draw: 'Callable[[], Figure]', *, what: str) -> None:
    """Draws into a file that is whole at any time, for viewers that read it again.

    Raises UserError without matplotlib, saying that `what` needs it.
    """
    try:
        figure = draw()
    except ImportError as error:
        if error.name is not None and not error.name.startswith('matplotlib'):
            raise
        raise UserError(f'{what} needs matplotlib: {install_command("plots")}') from None
    partial = output.with_name(f'.{output.name}.partial')
    figure.savefig(partial, format=output.suffix[1:], dpi=150)
    partial.replace(output)

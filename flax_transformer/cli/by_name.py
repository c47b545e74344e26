"""Models of Hugging Face's hub where a run is named: they are imported, and then known by their names."""

import sys
from pathlib import Path

from flax_transformer.engine.runs.run_directory import HUB_NAME, imported_run

from . import COMMANDS
from .options import positional, value_of


def import_named(command: str, argv: list[str], *, download: bool) -> None:
    """Imports the models that a command names; again, from the hub's cache, if it says `download`.

    A name below a folder that exists, or below `runs`, is a path.
    """
    most = None if command in ('translate', 'serve', 'compare', 'distill') else 'RUN' in COMMANDS[command].split()[1]
    by_options = [value_of(option, argv) or '' for option in ('--init-from', '--backward')]
    for name in [*positional(argv)[:most], *by_options]:
        owner, *rest = Path(name).parts or ['']
        is_path = Path(*rest and [owner]).is_dir() or owner == 'runs' or name.endswith('.py')
        if HUB_NAME.fullmatch(name) and not is_path and (download or not imported_run(name)):
            from flax_transformer.interop.huggingface_runs import import_by_name  # imports JAX

            import_by_name(name, download=download, ask=_ask)


def _ask(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f'{question} [y/N] ', end='', file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ('y', 'yes')

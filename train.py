"""Launch training: `python train.py --config configs/multi30k_en_de.py --workdir RUN [--field value ...]`.

The same as `flax-transformer train CONFIG --workdir RUN`.
"""

import sys

from flax_transformer.cli import main
from flax_transformer.cli.huge_pages import restart_with_huge_pages
from flax_transformer.engine.preemption import exit_on_signals


def positional(argv: list[str]) -> list[str]:
    """Puts the value of --config first, where the command expects it."""
    for i, arg in enumerate(argv):
        if arg == '--config' and i + 1 < len(argv):
            return [argv[i + 1], *argv[:i], *argv[i + 2 :]]
        if arg.startswith('--config='):
            return [arg.removeprefix('--config='), *argv[:i], *argv[i + 1 :]]
    return argv


if __name__ == '__main__':
    exit_on_signals()
    restart_with_huge_pages()
    sys.exit(main(['train', *positional(sys.argv[1:])]))

"""Launch training: `python train.py --config configs/multi30k_en_de.py --workdir RUN [--field value ...]`.

The same as `flax-transformer train CONFIG --workdir RUN`.
"""

import sys

from flax_transformer.cli import launch


def positional(argv: list[str]) -> list[str]:
    """Puts the value of --config first, where the command expects it."""
    for i, arg in enumerate(argv):
        if arg == '--config' and i + 1 < len(argv):
            return [argv[i + 1], *argv[:i], *argv[i + 2 :]]
        if arg.startswith('--config='):
            return [arg.removeprefix('--config='), *argv[:i], *argv[i + 1 :]]
    return argv


if __name__ == '__main__':
    launch(['train', *positional(sys.argv[1:])])

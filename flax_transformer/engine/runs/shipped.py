"""Models that come with the package: run directories that go by their names."""

import functools
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say

_PARTS = ('config.json', 'tokenizer', 'checkpoints/0')


def shipped_models() -> dict[str, Path]:
    """The folders of the models in the package, by name."""
    folder = Path(__file__).parents[2] / 'models'
    return {each.name: each for each in sorted(folder.glob('*/'))}


def find_run(path: Path) -> Path:
    """The run directory at a path, or the model of that name in the package, which a run of that name hides.

    Raises UserError if the model lacks a part.
    """
    shipped = shipped_models().get(str(path))
    if shipped is None:
        return path
    if path.is_dir():
        _note_hidden(path)
        return path
    if missing := [part for part in _PARTS if not (shipped / part).exists()]:
        raise UserError(
            f'the model {path} that comes with the package is not whole: {shipped / missing[0]} is missing; install '
            'the package again'
        )
    return shipped


@functools.cache
def _note_hidden(path: Path) -> None:
    say(f'{path}: the run in this folder, not the model of that name that comes with the package')

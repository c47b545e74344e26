"""The module that declares the task of a run, outside of the package: what a run says of it, and its import.

A stranger may have written the run: a module is imported only from the folder in the user's note about the run
(`trust`), or if the user names it in $FLAX_TRANSFORMER_TASKS.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import TaskConfig

VARIABLE = 'FLAX_TRANSFORMER_TASKS'  # names modules with tasks of your own, separated by commas
_PACKAGE = __name__.partition('.')[0]


class Home(NamedTuple):
    module: str
    folder: Path | None  # where the import finds the module; None: unknown, as in a notebook


def home_of(config: type[TaskConfig]) -> Home | None:
    """Where a config's task is declared; None: in this package."""
    name = config.declared_in()
    if name.partition('.')[0] == _PACKAGE:
        return None
    module = sys.modules[name]
    file = getattr(module, '__file__', None)
    if file is None:
        return Home(name, None)
    file = Path(file).resolve()
    spec = getattr(module, '__spec__', None)
    # A program and a config file have other names while they run.
    name = file.stem if spec is None else spec.name
    above = name.count('.') + (file.name == '__init__.py')
    return Home(name, file.parents[above])


def named_modules(run: Path | None) -> Iterator[ModuleType]:
    """The modules that the user names in the environment, from the current folder too, but none inside of `run`."""
    for name in filter(None, os.environ.get(VARIABLE, '').split(',')):
        with _on_path(os.getcwd(), first=False):
            if run is not None:
                _check_outside(run, name)
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                raise UserError(f'${VARIABLE} names {name!r}: {error}; is its folder in $PYTHONPATH?') from None
        yield module


def _check_outside(run: Path, name: str) -> None:
    # A stranger may have put it there.
    for place in _places(name):
        if place.is_relative_to(os.path.realpath(run)):
            raise UserError(f'${VARIABLE} names {name!r}, which would be {place}, inside of the run; move it')


def import_from(folder: Path, name: str) -> ModuleType:
    what = f'its task is in the module {name!r} of {folder}'
    remedy = f'Set {VARIABLE} to the name of the module, with its folder in $PYTHONPATH'
    with _on_path(str(folder), first=True):
        if not any(place.is_relative_to(folder) for place in _places(name)):
            raise UserError(f'{what}, which is gone, or another of that name is in use. {remedy}')
        try:
            return importlib.import_module(name)
        except Exception as error:
            raise UserError(f'{what}: {error!r}. {remedy}') from None


def _places(name: str) -> list[Path]:
    """The file of the module or package that the name begins with, and the package's folders, links resolved."""
    top = name.partition('.')[0]
    spec = sys.modules[top].__spec__ if top in sys.modules else importlib.util.find_spec(top)
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    return [Path(os.path.realpath(place)) for place in places if place]


@contextmanager
def _on_path(folder: str, *, first: bool) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:] = [folder, *before] if first else [*before, folder]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before

"""`flax-transformer new MY_CONFIG.py --source FILE --target FILE`, or with --task any other task's data."""

import dataclasses
import importlib
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from flax_transformer.cli.help import texts_of
from flax_transformer.cli.options import parse, value_of
from flax_transformer.cli.train import evaluate_command
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.common.quiet import duration
from flax_transformer.engine.config import TaskConfig
from flax_transformer.tasks.find import FIRST_TASK, make_trainer, run_of, task_called, task_module
from flax_transformer.tasks.new_config import Candidate, fit
from flax_transformer.tasks.translation.new_config import NewOptions

__all__ = ['NewOptions', 'main']  # what shells complete
DESCRIPTION = """Look at the data of a task, and write a commented config of a fitting size for them: for translation,
two aligned text files. Some examples are held out for validation, unless others are given. A few training steps are
measured here, so that model and steps fit the time you have (--minutes, --hours)."""
HOUR = 3600.0
_WIDTH = 120
_FIRST = ('model', 'data')
_HERE = 'str(Path(__file__).resolve().parent)'
_OWN = {'data.root': 'this folder, which can be moved'}  # comments that say more than the field's


def main(argv: list[str]) -> None:
    task = task_called(value_of('--task', argv) or FIRST_TASK)
    own = task_module(task, 'new_config')
    default = lambda _: own.NewOptions(task=task)
    options = replace(parse('new', own.NewOptions, argv, DESCRIPTION, first='MY_CONFIG.py', default=default), task=task)
    file = Path(argv[0])
    _check(file, options)
    facts, candidates = own.propose(file, options)
    fitted, *in_a_day = candidates[-1:]
    if options.measure:
        fitted, *in_a_day = _measured(candidates, options)
    comments = {'training.steps': f'some {fitted.passes:.{0 if fitted.passes >= 10 else 1}f} passes over the data'}
    name, run = shlex.quote(str(file)), shlex.quote(f'runs/{file.stem}')
    docstring = (
        f'{facts[0]}.\n\n    flax-transformer train {name} --workdir {run}\n\nNobody has trained this config yet: when '
        'you have, write down here what it scored, on what machine, and in what\ntime.\n'
    )
    write_whole(file, config_text(fitted.config, docstring, comments))
    print('\n'.join([*facts, f'{file}: {_described(fitted)}']))
    for other in in_a_day:
        is_more = other.total > fitted.total + HOUR / 10
        print(f'  in a day: {_described(other)}' if is_more else '  more time would hardly help')
    print('Next:')
    for line in _next(file, fitted.config):
        print(f'  flax-transformer {line}')


def _measured(candidates: list[Candidate], options: Any) -> list[Candidate]:
    """What fits into the time that was given, and into a day."""
    from flax_transformer.common.compilation_cache import use_compilation_cache
    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(1)
    use_compilation_cache()
    if options.minutes is not None:
        return fit(candidates, 60 * options.minutes, 24 * HOUR)
    return fit(candidates, HOUR * (options.hours or 1), 24 * HOUR)


def _check(file: Path, options: Any) -> None:
    """Raises UserError before anything is read."""
    if file.suffix != '.py':
        raise UserError(f'new: got {file}, expected the name of the Python file to write, such as my_config.py')
    if file.exists():
        raise UserError(f'{file} exists; give another name, or remove it')
    if not file.absolute().parent.is_dir():
        raise UserError(f'{file}: there is no folder {file.parent}')
    times = [time for time in (options.minutes, options.hours) if time is not None]
    if len(times) > 1 or not all(0 < time < float('inf') for time in times):
        raise UserError(f'got --minutes {options.minutes} and --hours {options.hours}, expected one, more than 0')
    if getattr(options, 'data', None) == '':
        raise UserError(f'new: got no data, expected them after {file}, as in: new {file} DATA --task {options.task}')


def _described(fitted: Candidate) -> str:
    """How long a model is trained and, if it was measured, its size and the time."""
    text = f'{fitted.steps:,} steps, some {fitted.passes:,.{0 if fitted.passes >= 10 else 1}f} passes over the data'
    if fitted.seconds is None:
        return text
    from flax_transformer.engine.task import count_parameters

    size = count_parameters(make_trainer(fitted.config).shapes.params)
    return f'{size:,} parameters, {text}: about {duration(fitted.total)} on this machine, as busy as it is now'


def _next(file: Path, config: Any) -> list[str]:
    name, run = shlex.quote(str(file)), Path('runs') / file.stem
    use, quoted = run_of(config, run).use, shlex.quote(str(run))
    lines = [f'check {name}', f'train {name} --workdir {quoted}']
    return [*lines, use.format(quoted), evaluate_command(config, run).partition(' ')[2]] if use else lines


def config_text(config: TaskConfig, docstring: str, comments: dict[str, str]) -> str:
    """The fields that differ from the defaults; `comments` of some, as 'training.steps', replace those of the fields.

    Paths start at the file's own folder, so that it can be moved with its data.
    """
    # Users import from it, and no module of ours does.
    public_names = importlib.import_module('flax_transformer.config')
    body = list(_section(config, '', _OWN | comments, 8))
    names: dict[str, list[str]] = {}
    sections = filter(dataclasses.is_dataclass, vars(config).values())
    for kind in sorted({type(config), *map(type, sections)}, key=lambda kind: kind.__name__):
        if kind is type(config) or any(f'={kind.__name__}(' in line for line in body):
            is_public = getattr(public_names, kind.__name__, None) is kind
            names.setdefault(public_names.__name__ if is_public else kind.__module__, []).append(kind.__name__)
    imports = ['from pathlib import Path', ''] if any(_HERE in line for line in body) else []
    for module, found in names.items():
        imports += [f'from {module} import (', *(f'    {name},' for name in found), ')']
    quoted, kind = docstring.replace('\\', '\\\\').replace('"', '\\"'), type(config).__name__
    start = [f'"""{quoted}"""', '', *imports, '', '', f'def get_config() -> {kind}:', f'    return {kind}(']
    return '\n'.join([*start, *body, '    )', ''])


def _section(section: Any, prefix: str, comments: dict[str, str], indent: int) -> Iterator[str]:
    space, texts = ' ' * indent, texts_of(type(section))
    for each in sorted(dataclasses.fields(section), key=lambda each: not prefix and each.name not in _FIRST):
        name, value = f'{prefix}{each.name}', getattr(section, each.name)
        if value == (each.default_factory() if callable(each.default_factory) else each.default):
            continue
        if dataclasses.is_dataclass(value):
            yield f'{space}{each.name}={type(value).__name__}('
            yield from _section(value, f'{name}.', comments, indent + 4)
            yield f'{space}),'
        else:
            line = f'{space}{each.name}={_HERE if name == "data.root" else repr(value)},'
            comment = f'  # {comments.get(name) or texts[each.name].partition("; ")[0]}'
            yield line + (comment if 4 < len(comment) <= _WIDTH - len(line) else '')

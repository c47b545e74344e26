"""The command `new`."""

import dataclasses
import importlib
import inspect
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.common.quiet import duration
from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.api import make_trainer, run_of
from flax_transformer.tasks.new_config import Candidate, fit
from flax_transformer.tasks.recipes import FIRST_TASK, package_recipes, recipe_named

from .help import texts_of
from .options import parse, value_of
from .train import evaluate_command

HOUR = 3600.0
_WIDTH = 120
_FIRST_SECTIONS = ('model', 'data')
_THIS_FOLDER = 'str(Path(__file__).resolve().parent)'


def main(argv: list[str]) -> None:
    """Look at the data of a task, and write a commented config of a fitting size for them.

    For translation, the data are two aligned text files. Some examples are held out for validation, unless others are
    given. A few training steps are measured here, so that model and steps fit the time you have (--minutes, --hours).
    """
    task, command = _command(value_of('--task', argv) or FIRST_TASK)
    default = command.options(task=task)
    options = parse('new', command.options, argv, inspect.getdoc(main), first='MY_CONFIG.py', default=default)
    options = replace(options, task=task)
    file = Path(argv[0])
    _check(file, options)
    facts, candidates = command.run(file, options)
    fitted, *in_a_day = _measured(candidates, options) if options.measure else candidates[-1:]

    run = Path('runs') / file.stem
    start = getattr(options, 'init_from', '')
    train = f'train {shlex.quote(str(file))} {f"--init-from {shlex.quote(start)} " * bool(start)}--workdir {run}'
    docstring = (
        f'{facts[0]}.\n\n    flax-transformer {train}\n\nNobody has trained this config yet: when you have, write '
        'down here what it scored, on what machine, and in what\ntime.\n'
    )
    write_whole(file, config_text(fitted.config, docstring, {'training.steps': _passes(fitted)}))

    print('\n'.join([*facts, f'{file}: {_described(fitted)}']))
    for other in in_a_day:
        is_more = other.total > fitted.total + HOUR / 10
        print(f'  in a day: {_described(other)}' if is_more else '  more time would hardly help')
    commands = [f'check {shlex.quote(str(file))}', train]
    if use := run_of(fitted.config, run).use:
        evaluate = evaluate_command(fitted.config, run).removeprefix('flax-transformer ')
        commands += [use.format(shlex.quote(str(run))), evaluate]
    print('Next:', *(f'  flax-transformer {command}' for command in commands), sep='\n')


def _measured(candidates: list[Candidate], options: Any) -> list[Candidate]:
    from flax_transformer.common.compilation_cache import use_compilation_cache

    use_compilation_cache()
    minutes = options.minutes or 60 * (options.hours or 1)
    return fit(candidates, 60 * minutes, 24 * HOUR)


def _command(name: str) -> tuple[str, Command]:
    recipe = recipe_named(name)
    task = recipe.config.task
    if recipe.propose is None:
        raise UserError(f'task={task!r}: its recipe has no propose; see docs/how-to/tasks.md')
    return task, recipe.propose


def options_of_tasks() -> list[type]:
    return [recipe.propose.options for recipe in package_recipes()]


def _check(file: Path, options: Any) -> None:
    if file.suffix != '.py':
        raise UserError(f'new: got {file}, expected a Python file to write, such as my_config.py')
    if file.exists():
        raise UserError(f'{file} exists; give another name, or remove it')
    if not file.absolute().parent.is_dir():
        raise UserError(f'{file}: there is no folder {file.parent}')
    times = [time for time in (options.minutes, options.hours) if time is not None]
    if len(times) > 1 or not all(0 < time < float('inf') for time in times):
        raise UserError(f'got --minutes {options.minutes} and --hours {options.hours}, expected one, more than 0')
    if getattr(options, 'data', None) == '':
        raise UserError(f'new: got no data, expected them after {file}, as in: new {file} DATA --task {options.task}')


def _passes(fitted: Candidate) -> str:
    digits = 0 if fitted.passes >= 10 else 1
    return f'some {fitted.passes:,.{digits}f} passes over the data'


def _described(fitted: Candidate) -> str:
    text = f'{fitted.steps:,} steps, {_passes(fitted)}'
    if fitted.seconds is None:
        return text
    from flax_transformer.engine.task import count_parameters

    size = count_parameters(make_trainer(fitted.config).shapes.params)
    return (
        f'{size:,} parameters, {text}: about {duration(fitted.total)} once begun, on this machine, as busy as it is now'
    )


def config_text(config: TaskConfig, docstring: str, comments: dict[str, str]) -> str:
    """The fields that differ from the defaults; `comments` of some, as 'training.steps', replace those of the fields.

    Paths start at the file's own folder, so that it can be moved with its data.
    """
    public = importlib.import_module('flax_transformer.config')  # users import it; no module of ours does
    comments = {'data.root': 'this folder, which can be moved'} | comments
    body = list(_section(config, '', comments, 8))
    sections = [section for section in vars(config).values() if dataclasses.is_dataclass(section)]
    items = [item for section in sections for value in vars(section).values() for item in _sections_in(value)]
    opened = {line.rpartition('=')[2].strip() for line in body}
    written = {kind for kind in map(type, [*sections, *items]) if f'{kind.__name__}(' in opened}
    names: dict[str, list[str]] = {}
    for kind in sorted({type(config), *written}, key=lambda kind: kind.__name__):
        is_public = getattr(public, kind.__name__, None) is kind
        names.setdefault(public.__name__ if is_public else kind.__module__, []).append(kind.__name__)

    quoted = docstring.replace('\\', '\\\\').replace('"', '\\"')
    lines = [f'"""{quoted}"""', '']
    if any(_THIS_FOLDER in line for line in body):
        lines += ['from pathlib import Path', '']
    for module, own in names.items():
        lines += [f'from {module} import (', *(f'    {name},' for name in own), ')']
    name = type(config).__name__
    lines += ['', '', f'def get_config() -> {name}:', f'    return {name}(', *body, '    )', '']
    return '\n'.join(lines)


def _section(section: Any, prefix: str, comments: dict[str, str], indent: int) -> Iterator[str]:
    texts = texts_of(type(section))
    fields = list(dataclasses.fields(section))
    if not prefix:
        fields.sort(key=lambda field: field.name not in _FIRST_SECTIONS)
    for field in fields:
        value = getattr(section, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value == default:
            continue
        start = f'{" " * indent}{field.name}='
        name = prefix + field.name
        if dataclasses.is_dataclass(value):
            yield f'{start}{type(value).__name__}('
            yield from _section(value, f'{name}.', comments, indent + 4)
            yield f'{" " * indent}),'
            continue
        if items := _sections_in(value):
            yield f'{start}('
            for item in items:
                yield f'{" " * (indent + 4)}{type(item).__name__}('
                yield from _section(item, f'{name}.', comments, indent + 8)
                yield f'{" " * (indent + 4)}),'
            yield f'{" " * indent}),'
            continue
        line = f'{start}{_THIS_FOLDER if name == "data.root" else repr(value)},'
        comment = comments.get(name) or texts[field.name].partition('; ')[0]
        fits = comment and len(line) + len(comment) + 4 <= _WIDTH
        yield f'{line}  # {comment}' if fits else line


def _sections_in(value: Any) -> list[Any]:
    return [item for item in value if dataclasses.is_dataclass(item)] if isinstance(value, tuple) else []

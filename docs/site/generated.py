"""What the site takes from the code when it is built: commands, config fields, the fields of dataclasses.

A line `<!-- commands -->`, `<!-- config -->` or `<!-- browser -->` in a page is replaced by Markdown.
"""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from flax_transformer.cli import COMMANDS, function_of
from flax_transformer.cli.completion import options_class, options_of_command
from flax_transformer.cli.help import Option, options_of, texts_of
from flax_transformer.common.config_json import section_classes
from flax_transformer.common.fields import marked
from flax_transformer.interop.onnx_export import RUNTIME
from flax_transformer.tasks.recipes import package_recipes

HIDDEN = ('setup', 'dtype')  # members of Linen modules: Linen's own text on the one, an alias of float32 for the other
# What Python says where nobody wrote a docstring.
EMPTY = ('Create new instance of ', 'Call self as a function.')


def setup(app: Sphinx) -> dict:
    app.connect('source-read', fill_in)
    app.connect('doctree-read', leave_plain)
    app.connect('autodoc-skip-member', hide)
    app.connect('autodoc-process-docstring', show_code)
    app.connect('autodoc-process-docstring', add_fields)
    app.connect('autodoc-process-signature', shorten)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}


def fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    """Replaces the marks of a page."""
    makers: dict[str, Callable[[], Iterator[str]]] = {'commands': commands, 'config': config_fields, 'browser': browser}
    for name, make in makers.items():
        mark = f'<!-- {name} -->'
        if mark in source[0]:
            source[0] = source[0].replace(mark, '\n'.join(make()))


def browser() -> Iterator[str]:
    """The page that `make docs` exports, if ONNX Runtime for the web is there."""
    if RUNTIME.is_dir():
        yield '<p><a href="../browser/">Translate in this browser, and look inside the model</a></p>'


def leave_plain(app: Sphinx, tree: nodes.document) -> None:
    """Gives no colors to blocks that name no language: what a command prints is not Python."""
    for block in tree.findall(nodes.literal_block):
        if block.get('language', 'default') == 'default' and not block.astext().startswith('>>>'):
            block['language'] = 'text'


# ------------------------------------------------------------------------------- commands


def commands() -> Iterator[str]:
    """A section for each command: what it does, its own options, and which fields of a config it takes."""
    for name, text in COMMANDS.items():
        usage, _, summary = text.partition(': ')
        yield from (f'## {name}', '', f'```sh\nflax-transformer {usage}\n```', '')
        options = [] if name == 'help' else options_of_command(name)
        about = '' if name == 'help' else _description(name)
        yield from (about or _sentence(summary), '')
        own = [option for option in options if '.' not in option.name]
        for option in own:
            turns_off = option.flag == f'--no-{option.name.replace("_", "-")}'
            text = f'do not {option.text}' if turns_off else option.text
            has_none = turns_off or 'by default' in text or option.value in (dataclasses.MISSING, None, False, ())
            default = '' if has_none else f', by default `{option.value}`'
            yield from (f'`{option.flag} {option.metavar}`'.replace(' `', '`'), f':   {_escaped(text)}{default}', '')
        sections = dict.fromkeys(option.name.partition('.')[0] for option in options if '.' in option.name)
        if sections:
            names = ', '.join(f'`--{each}.FIELD`' for each in sections)
            yield from (f'Fields of the [config](config.md): {names}.', '')


def _description(command: str) -> str:
    """What `--help` says of a command, as Markdown."""
    if command == 'evaluate':  # each task has its own
        texts = {recipe.config.task: recipe.evaluate.description for recipe in package_recipes()}
        return '\n\n'.join(f'For {task}: {_escaped(" ".join(text.split()))}' for task, text in texts.items())
    text = inspect.getdoc(options_class(command) or function_of(command))
    if text.startswith('usage: '):  # printed as it is, with its lines
        return f'```text\n{text.partition(chr(10))[2].strip()}\n```'
    return _escaped(' '.join(text.split()))


# ------------------------------------------------------------------------------- config fields


def config_fields() -> Iterator[str]:
    """A section for each class of each task's config, once, with its fields."""
    seen: dict[type, str] = {}
    for recipe in package_recipes():
        config = recipe.config
        task = config.task
        yield from (f'## {task}', '', f'`{config.__module__}.{config.__qualname__}`', '')
        plain = [option for option in options_of(config) if '.' not in option.name]
        yield from _fields(plain, marked(config(), 'resumable'))
        hints = typing.get_type_hints(config)
        for field in dataclasses.fields(config):
            for kind in section_classes(hints[field.name]):
                if kind in seen:
                    yield from (f'### {task}: `{field.name}`', '', f'As [{kind.__name__}](#{seen[kind]}) above.', '')
                    continue
                seen[kind] = anchor = f'config-{task}-{kind.__name__.lower()}'
                yield from (f'({anchor})=', f'### {task}: `{field.name}` ({kind.__name__})', '')
                yield from (_escaped(_summary(kind)), '')
                yield from _section(field, kind)


def _section(field: dataclasses.Field, kind: type) -> Iterator[str]:
    whole = 'resumable' in field.metadata.get('marks', ())
    names = {each.name for each in dataclasses.fields(kind)}
    resumable = names if whole else {each.name for each in dataclasses.fields(kind) if 'resumable' in _marks(each)}
    yield from _fields(options_of(kind), resumable)


def _marks(field: dataclasses.Field) -> tuple[str, ...]:
    return field.metadata.get('marks', ())


def _fields(options: Any, resumable: set[str]) -> Iterator[str]:
    for option in options:
        yield from _definition(option, can_change=option.name in resumable)


def _definition(option: Option, *, can_change: bool) -> Iterator[str]:
    """An entry of a definition list: name, text, values and default."""
    values = ' or '.join(f'`{each}`' for each in option.choices) or f'`{_kind(option.kind)}`'
    default = '' if option.value is dataclasses.MISSING else f', by default `{_shown(option.value)}`'
    resumes = '; may change when a run resumes' if can_change else ''
    yield from (f'`{option.name}`', f':   {_escaped(option.text)}  ', f'    {values}{default}{resumes}', '')


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Path) else repr(value)


def _kind(kind: Any) -> str:
    return str(kind).replace('pathlib.', '') if typing.get_args(kind) else kind.__name__


def _summary(kind: type) -> str:
    """The first paragraph of a docstring."""
    return ' '.join((kind.__doc__ or '').strip().split('\n\n')[0].split())


def _sentence(text: str) -> str:
    return text if not text or text.endswith(('.', '?', '!')) else f'{text}.'


def _escaped(text: str) -> str:
    """Text whose stars, underscores and brackets mean themselves, except in `code`; options are code."""
    text = re.sub(r'(?<![\w`-])--[\w.-]*\w', r'`\g<0>`', text)
    parts = re.split(r'(`[^`]*`)', text)
    return ''.join(part if part.startswith('`') else re.sub(r'([*_<>\[\]|$])', r'\\\1', part) for part in parts)


# ------------------------------------------------------------------------------- docstrings


def hide(app: Sphinx, what: str, name: str, each: Any, skip: bool, options: Any) -> bool | None:
    """Whether a member has no place in the interface; None: as Sphinx would have it."""
    is_field = type(each).__name__ == '_tuplegetter'  # of a named tuple; `add_fields` lists them
    return True if is_field or name in HIDDEN else None


def show_code(app: Sphinx, what: str, name: str, each: Any, options: Any, lines: list[str]) -> None:
    """Makes an indented block after a colon code, and leaves out what says nothing."""
    lines[:] = [line for line in lines if not line.startswith(EMPTY)]
    for number, (line, after, block) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
        if line.endswith(':') and not line.endswith('::') and not after and block.startswith('    '):
            lines[number] = f'{line}:'


def add_fields(app: Sphinx, what: str, name: str, each: Any, options: Any, lines: list[str]) -> None:
    """Appends the fields of a dataclass or named tuple to its docstring, with the comments at them as their texts."""
    if what != 'class' or not any(lines):  # nothing is left of what a constructor says of itself
        return
    if dataclasses.is_dataclass(each):
        texts = texts_of(each)
    elif hasattr(each, '_fields'):
        code = inspect.getsource(each)
        texts = dict(re.findall(rf'^ +({"|".join(each._fields)}): .*?  # (.*)$', code, re.M))
    else:
        return
    found = [f':param {field}: {text}' for field, text in texts.items() if text]
    if found:
        lines += ['', *found, '']


def shorten(app: Sphinx, what: str, name: str, each: Any, options: Any, signature: str | None, returns: str | None):
    """A signature without what Linen adds, and with classes by their names."""
    if signature and dataclasses.is_dataclass(each) and 'parent' in signature:
        signature = re.sub(r', parent[:=].*\)$', ')', signature)
    if signature:
        signature = re.sub(r"(?:<class '|~)(?:\w+\.)*(\w+)(?:'>)?", r'\1', signature)
        signature = re.sub(r'<function (\w+)>', r'\1', signature)
        signature = re.sub(
            r'= \(<function .*\)\)$', '= ...)', signature
        )  # a named tuple of functions, the last default
    return signature, returns

"""Short help: what people set most, by theme; `--help-all` is tyro's, with every field."""

import dataclasses
import functools
import inspect
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from flax_transformer.common.config_json import section_classes

# Fields of configs in the short help; each command shows those that it has, after its own options.
THEMES = {
    'data': ('data.train', 'data.validation', 'data.test', 'data.source_language', 'data.target_language', 'data.root'),
    'model': (
        *('model.vocab_size', 'model.d_model', 'model.num_heads', 'model.d_ff', 'model.num_encoder_layers'),
        *('model.num_decoder_layers', 'model.dropout_rate', 'model.cell', 'model.hidden_size'),
    ),
    'training': (
        *('training.steps', 'training.tokens_per_step', 'training.evaluate_every', 'training.patience'),
        'optimizer.learning_rate',
    ),
    'decoding': (
        *('decoding.beam_width', 'decoding.alpha', 'decoding.max_extra_tokens', 'decoding.batch_tokens'),
        *('decoding.weights', 'decoding.target_language'),
    ),
    'limits': (
        *('limits.max_requests', 'limits.max_texts', 'limits.max_characters', 'limits.max_alternatives'),
        *('limits.max_wait', 'limits.drain'),
    ),
    'devices': ('parallel.num_devices', 'parallel.strategy', 'model.dtype'),
}
_ONLY_TO_TRANSLATE = set(THEMES['decoding']) - {'decoding.beam_width'}  # left out where a whole config is taken
_ONLY_DATA = ('check', 'clean')  # commands that the other themes do not concern
_ONLY_TO_TRAIN = {'data.train', 'data.validation'}  # left out elsewhere
_HELP = ('-h', '--help')
_ALL = '--help-all'
_NAME = 34  # columns; the text of a longer one begins on the next line


class Option(NamedTuple):
    """A field as an option of a command."""

    name: str  # 'training.steps'
    kind: Any  # its type
    value: Any  # its default, or that of the config given
    text: str  # the comment at the field

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        name = self.name.replace('_', '-')
        if self.kind is not bool:
            return f'--{name}'
        # A field that is on by default is turned off.
        section, _, last = name.rpartition('.')
        return f'--{section + "." if section else ""}no-{last}' if self.value else f'--{name}'

    @property
    def choices(self) -> tuple[str, ...]:
        """Its values, if they are few and known."""
        kinds = (self.kind, *typing.get_args(self.kind))
        found = next((typing.get_args(kind) for kind in kinds if typing.get_origin(kind) is Literal), ())
        return tuple(map(str, found))

    @property
    def metavar(self) -> str:
        """What its value looks like."""
        if self.choices:
            return '|'.join(self.choices)
        return '' if self.kind is bool else _metavar(self.kind)


def wants_help(argv: list[str]) -> Literal['short', 'all'] | None:
    """Which help the arguments ask for."""
    if _ALL in argv:
        return 'all'
    return 'short' if any(arg in _HELP for arg in argv) else None


def options_of(kind: Any, values: Any = None, *, every_class: bool = False) -> Iterator[Option]:
    """Yields every field of a dataclass and its sections as an option, with the values of an instance, if given.

    With `every_class`, also the fields of the other classes that a section may have; a name may come twice.
    """
    made = kind if values is None else type(values)
    made = typing.get_origin(made) or made
    texts, hints = texts_of(made), typing.get_type_hints(made, include_extras=True)
    for field in dataclasses.fields(made):
        found = typing.get_args(kind)[0] if isinstance(hints[field.name], typing.TypeVar) else hints[field.name]
        found = typing.get_args(found)[0] if typing.get_origin(found) is typing.Annotated else found
        if isinstance(found, typing.TypeVar):  # generic in the class of the config
            found = next(iter(typing.get_args(kind)), None)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        value = default if values is None else getattr(values, field.name)
        classes = section_classes(found)
        if len(classes) > 1:
            found = classes[0] if value is dataclasses.MISSING else type(value)
        if dataclasses.is_dataclass(found):
            prefix = '' if field.name == 'config' else f'{field.name}.'
            for each_class in classes if every_class and len(classes) > 1 else (found,):
                given = None if value is dataclasses.MISSING or each_class is not found else value
                for each in options_of(each_class, given, every_class=every_class):
                    yield each._replace(name=prefix + each.name)
        elif not _is_positional(hints[field.name]) and not dataclasses.is_dataclass(
            next(iter(typing.get_args(found)), None)
        ):
            yield Option(field.name, found, value, texts[field.name])


@functools.cache
def texts_of(kind: type) -> dict[str, str]:
    """The comment at each field of a dataclass: after it, or in the lines above it."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        if not dataclasses.is_dataclass(each):
            continue
        above: list[str] = []
        for line in inspect.getsource(each).splitlines():
            code, _, comment = (part.strip() for part in line.partition('# '))
            if match := re.match(r'(\w+): ', code):
                found[match[1]] = comment or ' '.join(above)
            above = [*above, comment] if not code and comment else []
    return {field.name: found.get(field.name, '') for field in dataclasses.fields(kind)}


def short_help(prog: str, description: str, options: Any, values: Any = None) -> str:
    """The help of a command: its own options, and those of its fields that people set most, by theme."""
    width = min(shutil.get_terminal_size().columns, 120)
    every = {option.name: option for option in options_of(options, values)}
    shared = {name for names in THEMES.values() for name in names}
    left_out = _ONLY_TO_TRANSLATE if 'training.steps' in every else _ONLY_TO_TRAIN
    themes = {'options': [name for name in every if '.' not in name and name not in shared]}
    for theme, names in THEMES.items():
        if theme == 'data' or prog.split()[1] not in _ONLY_DATA:
            themes[theme] = [name for name in names if name in every and name not in left_out]
    about = textwrap.wrap(' '.join(description.split()), width, break_on_hyphens=False)
    others = [(name.upper(), text) for name, text in _positionals(options)]
    words = ' '.join([prog, *(name for name, _ in others)])
    lines = [f'usage: {words} [--field value ...]', '', *about]
    lines += ['', *(f'  {name:{_NAME - 2}}{text}' for name, text in others)] if others else []
    for theme, names in themes.items():
        if names:
            lines += ['', f'{theme}:', *(line for name in names for line in _lines(every[name], width))]
    hidden = len(every) - sum(map(len, themes.values()))
    if hidden:
        lines += ['', f'{prog} --help-all lists {hidden} more fields.']
    return '\n'.join(lines)


def _lines(option: Option, width: int) -> list[str]:
    """An option, the first clause of its text, and its value."""
    name = f'  {option.flag} {option.metavar}'.rstrip()
    value = '' if option.value in (dataclasses.MISSING, None, ()) or option.kind is bool else f' ({option.value})'
    text = option.text if option.choices else option.text.partition('; ')[0]  # what follows is about special values
    # This is a sentence above a field, not GB or True:
    text = re.sub(r'^[A-Z](?=[a-z]* )', lambda first: first[0].lower(), text)
    if option.value is True and option.kind is bool:
        text = f'do not {text}'
    text = textwrap.wrap(text.rstrip('.') + value, width - _NAME) or ['']
    if len(name) >= _NAME:
        text = ['', *text]
    return [f'{name:{_NAME}}{text[0]}'.rstrip(), *(' ' * _NAME + line for line in text[1:])]


def _positionals(options: Any) -> Iterator[tuple[str, str]]:
    """Name and text of the arguments that have no name on the command line, after the first."""
    made = typing.get_origin(options) or options
    hints = typing.get_type_hints(made, include_extras=True)
    yield from ((name, text) for name, text in texts_of(made).items() if _is_positional(hints[name]))


def _is_positional(hint: Any) -> bool:
    return 'Positional' in str(hint)


def _metavar(kind: Any) -> str:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return f'{_metavar(parts[0])} ...'
    if origin in (typing.Union, types.UnionType):
        return '|'.join(_metavar(part) for part in parts if part is not type(None))
    return 'PATH' if kind is Path else getattr(kind, '__name__', str(kind)).upper()

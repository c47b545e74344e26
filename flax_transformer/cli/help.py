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
    'data': 'train validation held_out test source_language target_language root',
    'model': 'vocab_size d_model num_heads d_ff num_encoder_layers num_decoder_layers dropout_rate cell hidden_size',
    'training': 'steps tokens_per_step evaluate_every patience optimizer.learning_rate',
    'decoding': 'beam_width alpha max_extra_tokens batch_tokens weights target_language source_language',
    'limits': 'max_requests max_texts max_characters max_alternatives max_wait drain',
    'devices': 'parallel.num_devices parallel.strategy model.dtype',
}
THEMES = {
    theme: [name if '.' in name else f'{theme}.{name}' for name in names.split()] for theme, names in THEMES.items()
}
SHORT = {'--to': 'decoding.target-language', '--from': 'decoding.source-language'}  # short forms of fields
_ONLY_TO_TRANSLATE = set(THEMES['decoding']) - {'decoding.beam_width'}  # left out where a whole config is taken
_ONLY_DATA = ('check', 'clean')  # commands that the other themes do not concern
_ONLY_TO_TRAIN = {'data.train', 'data.validation', 'data.held_out'}  # left out elsewhere
_HELP = ('-h', '--help')
_ALL = '--help-all'
_NAME = 34  # columns; the text of a longer one begins on the next line


class Option(NamedTuple):
    name: str  # 'training.steps'
    kind: Any  # its type
    value: Any  # its default, or that of the config given
    text: str  # the comment at the field

    @property
    def flag(self) -> str:
        name = self.name.replace('_', '-')
        if self.kind is bool and self.value:  # a field that is on by default is turned off
            name = re.sub(r'([^.]+)$', r'no-\1', name)
        return f'--{name}'

    @property
    def choices(self) -> tuple[str, ...]:
        for kind in (self.kind, *typing.get_args(self.kind)):
            if typing.get_origin(kind) is Literal:
                return tuple(map(str, typing.get_args(kind)))
        return ()

    @property
    def metavar(self) -> str:
        if self.choices:
            return '|'.join(self.choices)
        return '' if self.kind is bool else _metavar(self.kind)


def wants_help(argv: list[str]) -> Literal['short', 'all'] | None:
    if _ALL in argv:
        return 'all'
    return 'short' if any(arg in _HELP for arg in argv) else None


def options_of(kind: Any, values: Any = None, *, every_class: bool = False) -> Iterator[Option]:
    """Every field of a dataclass and its sections as an option, with the values of an instance, if given.

    With `every_class`, also those of the other classes that a section may have; a name may come twice.
    """
    made = kind if values is None else type(values)
    made = typing.get_origin(made) or made
    texts = texts_of(made)
    hints = typing.get_type_hints(made, include_extras=True)
    own = inspect.get_annotations(made)
    for field in sorted(dataclasses.fields(made), key=lambda field: field.name not in own):  # what commands share, last
        hint = hints[field.name]
        is_positional = _is_positional(hint)
        if typing.get_origin(hint) is typing.Annotated:
            hint = _first_argument(hint)
        if isinstance(hint, typing.TypeVar):  # generic in the class of the config
            hint = _first_argument(kind)

        if values is not None:
            value = getattr(values, field.name)
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            value = field.default

        classes = section_classes(hint)
        if len(classes) > 1:
            hint = classes[0] if value is dataclasses.MISSING else type(value)
        if dataclasses.is_dataclass(hint):
            prefix = '' if field.name == 'config' else f'{field.name}.'
            for section in classes if every_class else (hint,):
                given = value if section is hint and value is not dataclasses.MISSING else None
                for option in options_of(section, given, every_class=every_class):
                    yield option._replace(name=prefix + option.name)
        elif not (is_positional or dataclasses.is_dataclass(_first_argument(hint))):
            yield Option(field.name, hint, value, texts[field.name])


def _first_argument(kind: Any) -> Any:
    return next(iter(typing.get_args(kind)), None)


@functools.cache
def texts_of(kind: type) -> dict[str, str]:
    """The comment at each field of a dataclass: after it, or in the lines above it."""
    texts: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        above: list[str] = []
        for line in inspect.getsource(base).splitlines():
            code, _, comment = (part.strip() for part in line.partition('# '))
            if match := re.match(r'(\w+): ', code):
                texts[match[1]] = comment or ' '.join(above)
            above = [*above, comment] if not code and comment else []
    return {field.name: texts.get(field.name, '') for field in dataclasses.fields(kind)}


def short_help(prog: str, description: str, options: Any, values: Any = None) -> str:
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
    if others:
        lines += ['', *(f'  {name:{_NAME - 2}}{text}' for name, text in others)]
    for theme, names in themes.items():
        if names:
            lines += ['', f'{theme}:', *(line for name in names for line in _lines(every[name], width))]
    if hidden := len(every) - sum(map(len, themes.values())):
        lines += ['', f'{prog} --help-all lists {hidden} more fields.']
    return '\n'.join(lines)


def _lines(option: Option, width: int) -> list[str]:
    text = option.text
    if not option.choices:
        text = text.partition('; ')[0]  # what follows is about special values
    if re.match('[A-Z][a-z]* ', text):  # a sentence above a field, not GB or True
        text = text[0].lower() + text[1:]
    text = text.rstrip('.')
    if option.kind is bool:
        text = f'do not {text}' if option.value else text
    elif option.value not in (dataclasses.MISSING, None, ()):
        text += f' ({option.value})'

    short = (form for form, name in SHORT.items() if option.flag == f'--{name}')
    name = f'  {next(short, option.flag)} {option.metavar}'.rstrip()
    while len(name) - name.rfind('\n') > width:  # many choices
        at = name.rindex('|', 0, name.rfind('\n') + width) + 1
        name = f'{name[:at]}\n    {name[at:]}'
    lines = textwrap.wrap(text, width - _NAME) or ['']
    if len(name) >= _NAME:
        lines = ['', *lines]
    return [*f'{name:{_NAME}}{lines[0]}'.rstrip().split('\n'), *(' ' * _NAME + line for line in lines[1:])]


def _positionals(options: Any) -> Iterator[tuple[str, str]]:
    """Name and text of the arguments after the first that have no name on the command line."""
    made = typing.get_origin(options) or options
    hints = typing.get_type_hints(made, include_extras=True)
    yield from ((name, text) for name, text in texts_of(made).items() if _is_positional(hints[name]))


def _is_positional(hint: Any) -> bool:
    return 'Positional' in str(hint)


def _metavar(kind: Any) -> str:
    origin = typing.get_origin(kind)
    parts = typing.get_args(kind)
    if origin is tuple:
        return f'{_metavar(parts[0])} ...'
    if origin in (typing.Union, types.UnionType):
        return '|'.join(_metavar(part) for part in parts if part is not type(None))
    return 'PATH' if kind is Path else getattr(kind, '__name__', str(kind)).upper()

"""The command `completion`."""

import collections
import inspect
import itertools
import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from flax_transformer.common.config_files import shipped_configs
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.recipes import package_recipes

from . import ALIASES, COMMANDS, function_of
from .help import Option, options_of, wants_help

COMMON = ('--help', '--help-all', '--quiet')


def main(argv: list[str]) -> None:
    """usage: flax-transformer completion bash|zsh|fish

    Print a script that completes commands, options, their values and file names. A tab starts nothing. Install:
      bash  flax-transformer completion bash > ~/.local/share/bash-completion/completions/flax-transformer
      zsh   flax-transformer completion zsh > ~/.flax-transformer.zsh, and in ~/.zshrc after compinit: source that file
      fish  flax-transformer completion fish > ~/.config/fish/completions/flax-transformer.fish
    """
    scripts = {'bash': bash, 'zsh': zsh, 'fish': fish}
    if wants_help(argv):
        print(inspect.getdoc(main))
        return
    if len(argv) != 1 or argv[0] not in scripts:
        got = repr(argv[0]) if argv else 'nothing'
        raise UserError(f'completion: got {got}, expected one of {", ".join(scripts)}')
    sys.stdout.write(scripts[argv[0]]())


def options_class(command: str) -> Any:
    """The dataclass of a command's options, named after it; None: it has none, or one for each task."""
    module = sys.modules[function_of(command).__module__]
    return vars(module).get(f'{command.title().replace("-", "")}Options')


def options_of_command(command: str) -> list[Option]:
    if command == 'help':  # the one without a function of its own
        return []
    try:
        options = options_class(command)
    except UserError:  # serve without the packages that it needs
        return []
    if options is None:
        of_tasks = getattr(sys.modules[function_of(command).__module__], 'options_of_tasks', list)
        kinds = of_tasks()
    elif getattr(options, '__parameters__', ()):
        kinds = [options[recipe.config] for recipe in package_recipes()]
    else:
        kinds = [options]
    merged: dict[str, Option] = {}
    for option in itertools.chain.from_iterable(options_of(kind, every_class=True) for kind in kinds):
        before = merged.setdefault(option.flag, option)
        if before.choices and option.choices:
            merged[option.flag] = before._replace(kind=Literal[(*before.choices, *option.choices)])
    return list(merged.values())


def bash() -> str:
    rows = []
    cases = collections.defaultdict(list)
    for command in COMMANDS:
        listed = options_of_command(command)
        names = _names(command)
        for option in listed:
            if option.choices:
                cases[option.choices] += [f"*' {name} {option.flag}'" for name in names]
        rows.append(([f"*' - {name} '*" for name in names], [*(option.flag for option in listed), *COMMON], ''))
        rows.append(([f"'2 '*' {name} '*" for name in names], _first(command), ''))
    closed = [(["'1 '*"], COMMANDS), *((patterns, words) for words, patterns in cases.items())]
    rows = [*((patterns, words, ' files=') for patterns, words in closed), *rows]
    lines = [
        f'        {"|".join(patterns)}) words={shlex.quote(" ".join(words))}{end} ;;' for patterns, words, end in rows
    ]
    return Path(__file__).with_suffix('.bash').read_text('utf-8').replace('        ROWS', '\n'.join(lines))


def zsh() -> str:
    return 'autoload -U +X bashcompinit && bashcompinit\n' + bash()


def fish() -> str:
    start = 'complete -c flax-transformer -n'
    lines = [
        f'{start} __fish_use_subcommand -f -a {command} -d {_fish_quoted(text.partition(": ")[2])}'
        for command, text in COMMANDS.items()
    ]
    for command in COMMANDS:
        seen = f"{start} '__fish_seen_subcommand_from {' '.join(_names(command))}'"
        if words := _first(command):
            lines.append(f"{seen} -a '{' '.join(words)}'")
        lines += [f'{seen} -l {flag[2:]}' for flag in COMMON]
        lines += [f'{seen} {_fish_option(option)}' for option in options_of_command(command)]
    return '\n'.join(lines) + '\n'


def _names(command: str) -> list[str]:
    return [command, *(alias for alias, name in ALIASES.items() if name == command)]


def _first(command: str) -> list[str]:
    if command == 'help':
        return list(COMMANDS)
    kinds = COMMANDS[command].split()[1].rstrip(':').split('|')
    words = [kind for kind in kinds if kind.islower()]
    return [*words, *shipped_configs()] if 'CONFIG' in kinds else words


def _fish_option(option: Option) -> str:
    text = f'-l {option.flag[2:]} -d {_fish_quoted(option.text.partition("; ")[0])}'
    if option.choices:
        return f"{text} -x -a '{' '.join(option.choices)}'"
    return f'{text} -r' if option.metavar else text


def _fish_quoted(text: str) -> str:
    return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"

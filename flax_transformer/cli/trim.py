"""The commands `trim` and `add-language`: runs with fewer pieces, or more."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from flax_transformer.common.errors import UserError

from .options import OfCheckpoint, parse, print_next


@dataclass(frozen=True)
class TrimOptions(OfCheckpoint):
    """Make a smaller, faster run with only the pieces that your texts use, equal on such texts."""

    languages: tuple[str, ...] = ()  # keep these of a model with tags of languages; none given: all
    text: tuple[Path, ...] = ()  # files of lines, perhaps compressed
    output: Path | None = None  # the run directory to make


@dataclass(frozen=True)
class AddLanguageOptions(OfCheckpoint):
    """Make a run with a tag and pieces for one LANGUAGE more, to train with --init-from, on the old pairs, too."""

    language: tyro.conf.Positional[str] = ''  # its code, such as fr
    text: tuple[Path, ...] = ()  # files of lines in the language, perhaps compressed
    output: Path | None = None  # the run directory to make


def main(argv: list[str]) -> None:
    options = parse('trim', TrimOptions, argv, task='translation')
    if options.output is None or not options.text:
        raise UserError('trim: expected --text FILE ... and --output RUN')

    from flax_transformer.tasks.translation.vocabulary_change import trim_run

    lines, out = _read(options.text), options.output
    languages = ','.join(options.languages).split(',')
    _print(out, *trim_run(argv[0], out, lines, [name for name in languages if name], step=options.step))


def add_language(argv: list[str]) -> None:
    options = parse('add-language', AddLanguageOptions, argv, task='translation')
    out = options.output
    if not options.language or out is None or not options.text:
        raise UserError('add-language: expected RUN LANGUAGE, --text FILE ... and --output RUN')

    from flax_transformer.tasks.translation import vocabulary_change as change

    lines = _read(options.text)
    _print(out, *change.add_language(argv[0], out, options.language, lines, step=options.step))
    print_next('Now train', f'flax-transformer train CONFIG --init-from {shlex.quote(str(out))} --workdir ANOTHER')


def _read(files: tuple[Path, ...]) -> list[str]:
    from flax_transformer.data.lines import read_lines

    lines = [line for file in files for line in read_lines(file)]
    if not any(lines):
        raise UserError(f'--text: {", ".join(map(str, files))}: expected lines, got none')
    return lines


def _print(out: Path, old: Any, new: Any) -> None:
    import jax

    sizes = [sum(leaf.nbytes for leaf in jax.tree.leaves(run.params)) / 1e6 for run in (old, new)]
    pieces = f'{old.tokenizer.vocab_size:,} pieces became {new.tokenizer.vocab_size:,}'
    print(f'{pieces}, {sizes[0]:,.1f} MB of parameters {sizes[1]:,.1f}: {out}')

"""The command `check`."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.recipes import recipe_of

from .options import C, parse, progress_bar, read_config_file


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Generic[C]):
    """Check the corpora of a config: what is damaged, where, what training does about it, and the remedy.

    Exit code: 0; 1 for warnings with --strict; 2 for errors, which would stop training.
    """

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # print one JSON object instead
    strict: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # exit with 1 if there are warnings
    workdir: Path | None = None  # a run directory, whose tokenizer decides what is too long or has no piece
    config: Annotated[C, tyro.conf.arg(name='')]


def main(argv: list[str]) -> int:
    default = lambda name: CheckOptions(config=read_config_file(name))
    options = parse('check', CheckOptions, argv, first='CONFIG', default=default)
    if options.workdir is not None:
        open_run(options.workdir, options.config.task)  # raises if it is no run, or another task's
    check = recipe_of(options.config).check
    if check is None:
        raise UserError(f'task={options.config.task!r}: its recipe has no check; see docs/how-to/tasks.md')
    try:
        with progress_bar(None, 'examples') as bar:
            report = check(options.config, options.workdir, processes=os.cpu_count() or 1, progress=bar.update)
            bar.update(sum(report.pairs.values()) - bar.n)  # some tasks count at the end
    except UserError as error:
        if not options.json:
            raise
        print(json.dumps({'error': str(error)}, ensure_ascii=False))
        return 2
    try:
        print(report.to_json() if options.json else report, flush=True)
    except BrokenPipeError:  # `| head` has read enough; what was found counts all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if report.errors:
        return 2
    return 1 if report.warnings and options.strict else 0

"""The commands `check` and `clean`."""

import json
import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Generic

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.recipes import recipe_of
from flax_transformer.tasks.translation.config import Config

from .options import C, note, parse, progress_bar, read_config_file


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Generic[C]):
    """Check the corpora of a config: what is damaged, where, what training does about it, and the remedy.

    Exit code: 0; 1 for warnings with --strict; 2 for errors, which would stop training.
    """

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # print one JSON object instead
    strict: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # exit with 1 if there are warnings
    workdir: Path | None = None  # a run directory, whose tokenizer decides what is too long or has no piece
    config: Annotated[C, tyro.conf.arg(name='')]


def check(argv: list[str]) -> int:
    def default(name: str) -> CheckOptions:
        return CheckOptions(config=read_config_file(name))

    options = parse('check', CheckOptions, argv, first='CONFIG', default=default)
    if options.workdir is not None:
        open_run(options.workdir, options.config.task)  # raises if it is no run, or another task's
    report_of = recipe_of(options.config).check
    if report_of is None:
        raise UserError(f'task={options.config.task!r}: its recipe has no check; see docs/how-to/tasks.md')
    try:
        with progress_bar(None, 'examples') as bar:
            report = report_of(options.config, options.workdir, processes=os.cpu_count() or 1, progress=bar.update)
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


@dataclass(frozen=True)
class CleanOptions:
    """Write the training pairs that pass the check as aligned files.

    The others go, each with its reason, to a file of their own. `check` shows beforehand what would be left out.
    """

    output: Path | None = None  # the folder to write to
    overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # replace the files of an earlier clean
    spaces: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # make one plain space of any white space
    workdir: Path | None = None  # a run directory, whose tokenizer decides what is too long
    config: Annotated[Config, tyro.conf.arg(name='')] = field(default_factory=Config)


def clean(argv: list[str]) -> None:
    def default(name: str) -> CleanOptions:
        return CleanOptions(config=read_config_file(name, Config.task))

    options = parse('clean', CleanOptions, argv, first='CONFIG', default=default)
    tokenizer = options.workdir and open_run(options.workdir, Config.task).read_tokenizer()
    if options.output is None:
        raise UserError(f'clean: expected a folder to write to: flax-transformer clean {argv[0]} --output FOLDER')
    from flax_transformer.data.audit import cleaning
    from flax_transformer.data.audit.config import Vocabulary

    config = options.config

    with progress_bar(None, 'pairs') as bar:
        cleaned, report = cleaning.clean(
            config.data,
            config.check,
            Vocabulary(config.model.vocab_size, config.tokenizer, tokenizer),
            options.output,
            overwrite=options.overwrite,
            spaces=options.spaces,
            processes=os.cpu_count() or 1,
            progress=bar.update,
        )
    print(*cleaned, sep='\n')
    for finding in report.errors:
        note(f'{finding.corpus}: {finding.kind}: {finding.count:,}; see with `check` whether cleaning removed it')
    if not config.data.mixture:
        print(f'Train on it with\n  --data.train {shlex.quote(cleaned[0].corpus)}')
    else:
        print('Train on them with these in data.mixture of the config:')
        for corpus in cleaned:
            print(f'  name={corpus.name!r}, train={corpus.corpus!r}')

"""The command `clean`."""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.translation.config import Config

from .options import note, parse, progress_bar, read_config_file


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


def main(argv: list[str]) -> None:
    default = lambda name: CleanOptions(config=read_config_file(name, Config.task))
    options = parse('clean', CleanOptions, argv, first='CONFIG', default=default)
    tokenizer = options.workdir and open_run(options.workdir, Config.task).read_tokenizer()
    if options.output is None:
        raise UserError(f'clean: expected a folder to write to: flax-transformer clean {argv[0]} --output FOLDER')
    from flax_transformer.data.audit.cleaning import clean
    from flax_transformer.data.audit.config import Vocabulary

    config = options.config

    with progress_bar(None, 'pairs') as bar:
        cleaned, report = clean(
            config.data,
            config.check,
            Vocabulary(config.model.vocab_size, config.tokenizer, tokenizer),
            options.output,
            overwrite=options.overwrite,
            spaces=options.spaces,
            processes=os.cpu_count() or 1,
            progress=bar.update,
        )
    for corpus in cleaned:
        rejected = sum(corpus.rejected.values())
        print(f'{corpus.name}: {corpus.kept:,} pairs kept, {rejected:,} left out, see {corpus.rejected_file}')
        for kind, count in corpus.rejected.items():
            print(f'  {count:>10,}  {kind}')
    for finding in report.errors:
        note(f'{finding.corpus}: {finding.kind}: {finding.count:,}; see with `check` whether cleaning removed it')
    if not config.data.mixture:
        print(f'Train on it with\n  --data.train {shlex.quote(cleaned[0].corpus)}')
    else:
        print('Train on them with these in data.mixture of the config:')
        for corpus in cleaned:
            print(f'  name={corpus.name!r}, train={corpus.corpus!r}')

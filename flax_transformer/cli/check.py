"""`flax-transformer check CONFIG [--json] [--strict] [--workdir RUN] [--field value ...]`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from flax_transformer.cli.options import parse, progress_bar, read_run_tokenizer
from flax_transformer.config import Config
from flax_transformer.config_files import load_config

DESCRIPTION = """Check the corpora of a config: what is damaged, where, what training does about it, and the remedy.
Exit code: 0, 1 for warnings with --strict, 2 for errors, on which training would stop."""


@dataclass(frozen=True)
class CheckOptions:
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # print one JSON object instead
    strict: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # exit with 1 where there are warnings
    workdir: Path | None = None  # a run directory, whose tokenizer says what is too long and what has no piece
    config: Annotated[Config, tyro.conf.arg(name='')] = field(default_factory=Config)


def main(argv: list[str]) -> int:
    options = parse(
        'check',
        CheckOptions,
        argv,
        first='CONFIG',
        description=DESCRIPTION,
        default=lambda name: CheckOptions(config=load_config(name)),
    )
    from flax_transformer.data.audit import audit
    from flax_transformer.data.cache import recorded_files
    from flax_transformer.run_directory import CACHE

    tokenizer = read_run_tokenizer(options.workdir)
    # Of a run whose cache was deleted nothing is known.
    recorded = (recorded_files(options.workdir / CACHE) or None) if options.workdir else None
    settings = {'tokenizer': tokenizer, 'recorded': recorded, 'processes': os.cpu_count() or 1}
    with progress_bar(None, 'pair') as bar:
        report = audit(options.config, **settings, progress=bar.update)
    print(report.to_json() if options.json else report)
    if report.errors:
        return 2
    return 1 if report.warnings and options.strict else 0

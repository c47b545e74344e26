"""`flax-transformer check CONFIG [--json] [--strict] [--workdir RUN] [--field value ...]`."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from flax_transformer.cli.options import parse, progress_bar, read_config_file, read_run_tokenizer
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.config import Config

DESCRIPTION = """Check the corpora of a config: what is damaged, where, what training does about it, and the remedy.
Exit code: 0; 1 for warnings with --strict; 2 for errors, which would stop training."""


@dataclass(frozen=True)
class CheckOptions:
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # print one JSON object instead
    strict: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False  # exit with 1 if there are warnings
    workdir: Path | None = None  # a run directory, whose tokenizer decides what is too long or has no piece
    config: Annotated[Config, tyro.conf.arg(name='')] = field(default_factory=Config)


def main(argv: list[str]) -> int:
    options = parse(
        'check',
        CheckOptions,
        argv,
        first='CONFIG',
        description=DESCRIPTION,
        default=lambda name: CheckOptions(config=read_config_file(name, Config.task)),
    )
    from flax_transformer.data.audit.checking import audit
    from flax_transformer.data.audit.vocabulary import Vocabulary

    tokenizer = read_run_tokenizer(options.workdir)
    recorded = None
    if options.workdir:
        from flax_transformer.tasks.translation.corpus_checks import files_of
        from flax_transformer.tasks.translation.run import Run

        known, now = Run(options.workdir).read_data_files(), files_of(options.config.data)
        recorded = {
            str(file.absolute()): (entry['bytes'], entry['sha256'])
            for name, entries in known.items()
            for file, entry in zip(now.get(name, [Path(entry['path']) for entry in entries]), entries, strict=False)
        } or None
    config = options.config
    vocabulary = Vocabulary(config.model.vocab_size, config.tokenizer, tokenizer)
    settings = {'recorded': recorded, 'processes': os.cpu_count() or 1}
    try:
        with progress_bar(None, 'pairs') as bar:
            report = audit(config.data, config.check, vocabulary, **settings, progress=bar.update)
    except UserError as error:
        if not options.json:
            raise
        print(json.dumps({'error': str(error)}, ensure_ascii=False))
        return 2
    print(report.to_json() if options.json else report)
    if report.errors:
        return 2
    return 1 if report.warnings and options.strict else 0

"""Checks of corpora before a run trains on them: for damage, and for changes since it began."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import shows_progress
from flax_transformer.data.audit.checking import audit
from flax_transformer.data.audit.config import Vocabulary
from flax_transformer.data.audit.kinds import KINDS
from flax_transformer.data.audit.report import Report, findings_of
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.sources import open_corpus
from flax_transformer.data.lines import Listed, unchanged

from .config import Config
from .run import Run


def check_corpora(config: Config, *, say: Callable[[str], None], processes: int = 1) -> None:
    """Reports what is wrong with the corpora of a config. Raises UserError if training on them makes no sense."""
    with tqdm(desc='checking', unit=' pairs', disable=not shows_progress(), leave=False, delay=1) as bar:
        report = report_of(config, None, processes=processes, progress=bar.update)
    remedy = 'Repair them. To train on them nevertheless: --check.no-before-training'
    report.announce(say, f'the corpora are damaged:\n\n{{}}\n\n{remedy}')


def report_of(
    config: Config, workdir: Path | None, *, processes: int = 1, progress: Callable[[int], object] | None = None
) -> Report:
    """What is wrong with the config's corpora, for the command `check`.

    `workdir` is a run, whose tokenizer decides what is too long or has no piece; changes of its files are reported.
    """
    run = workdir and Run(workdir)
    tokenizer = run and run.read_tokenizer()
    vocabulary = Vocabulary(config.model.vocab_size, config.tokenizer, tokenizer)
    report = audit(config.data, config.check, vocabulary, processes=processes, progress=progress)
    if run is None:
        return report
    recorded = run.read_data_files()
    changes = [change for _, changes in changed_files(config.data, recorded) for change in changes]
    examples = [{'place': file, 'source': how, 'target': ''} for file, how in changes]
    total = sum(map(len, recorded.values()))
    findings = findings_of(KINDS['changed'], 'files', len(changes), total, examples)
    return replace(report, findings=(*findings, *report.findings))


def refuse_changed_files(data: DataConfig, recorded: dict[str, list[Listed]]) -> None:
    """Raises UserError if files of the corpora have changed since the run began."""
    for name, changes in changed_files(data, recorded):
        files = ', '.join(file for file, _ in changes)
        raise UserError(
            f'{name} is not what the run was trained on so far: {files}; restore its text, or give another --workdir'
        )


def changed_files(data: DataConfig, recorded: dict[str, list[Listed]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The corpora with other text than a run recorded, each with its changed files and how they differ."""
    changed = []
    now = files_of(data) if recorded else {}
    for name, known in recorded.items():
        files = now.get(name)
        if files is not None and unchanged(known, files) is None:
            changed.append((name, list(_changes(known, files))))
    return changed


def _changes(known: list[Listed], files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for entry, file in itertools.zip_longest(known, files):
        if file is None:
            yield entry['path'], 'is no longer there'
        elif entry is None:
            yield str(file.absolute()), 'is new'
        elif unchanged([entry], [file]) is None:
            yield str(file.absolute()), _difference(entry, file)


def _difference(entry: Listed, file: Path) -> str:
    size = file.stat().st_size
    if size == entry['bytes']:
        return 'has other bytes, though as many'
    return f'has {size:,} bytes, had {entry["bytes"]:,}'


def files_of(data: DataConfig) -> dict[str, tuple[Path, ...]]:
    """The text files of each training and validation corpus, by `NAME SOURCE-TARGET`."""
    files = {}
    for corpus in data.corpora:
        for name in (corpus.train, corpus.validation):
            if name and name.partition(':')[0] not in ('number_words', 'sacrebleu') and name.count(',') < 2:
                files[f'{name} {"-".join(corpus.languages)}'] = open_corpus(name, data, corpus.languages).files
    return files

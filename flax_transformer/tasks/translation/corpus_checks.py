"""Checks of corpora before a run trains on them: for damage, and for changes since it began."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import shows_progress
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.sources import open_corpus
from flax_transformer.data.lines import Listed, unchanged
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.run import Run

if TYPE_CHECKING:
    from flax_transformer.data.audit.report import Report


def check_corpora(config: Config, *, say: Callable[[str], None], processes: int = 1) -> None:
    """Reports what is wrong with the corpora of a config. Raises UserError if training on them makes no sense."""

    with tqdm(desc='checking', unit=' pairs', disable=not shows_progress(), leave=False, delay=1) as bar:
        report = report_of(config, None, processes=processes, progress=bar.update)
    remedy = 'Repair them. To train on them nevertheless: --check.no-before-training'
    report.announce(say, f'the corpora are damaged:\n\n{{}}\n\n{remedy}')


def report_of(
    config: Config, workdir: Path | None, *, processes: int = 1, progress: Callable[[int], object] | None = None
) -> 'Report':
    """What is wrong with the config's corpora, for the command `check`.

    `workdir` is a run: its tokenizer decides what is too long or has no piece, and files that changed since it began
    are reported.
    """
    from flax_transformer.data.audit.checking import audit
    from flax_transformer.data.audit.config import Vocabulary

    tokenizer = recorded = None
    if workdir is not None:
        run = Run(workdir)
        tokenizer, known, now = run.read_tokenizer(), run.read_data_files(), files_of(config.data)
        recorded = {
            str(file.absolute()): (entry['bytes'], entry['sha256'])
            for name, entries in known.items()
            for file, entry in zip(now.get(name, [Path(entry['path']) for entry in entries]), entries, strict=False)
        } or None
    vocabulary = Vocabulary(config.model.vocab_size, config.tokenizer, tokenizer)
    return audit(config.data, config.check, vocabulary, recorded=recorded, processes=processes, progress=progress)


def refuse_changed_files(data: DataConfig, recorded: dict[str, list[Listed]]) -> None:
    """Raises UserError if files of the corpora have changed since the run began."""
    now = files_of(data) if recorded else {}
    for name, known in recorded.items():
        files = now.get(name)
        if files is None or unchanged(known, files) is not None:
            continue
        changed = [
            str(file) for i, file in enumerate(files) if i >= len(known) or unchanged(known[i : i + 1], [file]) is None
        ]
        what = ', '.join(changed) if changed else f'it has {len(files)} files, had {len(known)}'
        raise UserError(
            f'{name} is not what the run was trained on so far: {what}; restore its text, or give another --workdir'
        )


def files_of(data: DataConfig) -> dict[str, tuple[Path, ...]]:
    """The text files of each training and validation corpus, by `NAME SOURCE-TARGET`."""
    found = {}
    for corpus in data.corpora:
        for name in (corpus.train, corpus.validation):
            if name and name.partition(':')[0] not in ('number_words', 'sacrebleu') and name.count(',') < 2:
                found[f'{name} {"-".join(corpus.languages)}'] = open_corpus(name, data, corpus.languages).files
    return found

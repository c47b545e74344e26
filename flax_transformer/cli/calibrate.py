"""The command `calibrate`."""

from dataclasses import dataclass, field
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.translation.evaluate import check_files

from .options import OfCheckpoint, ToTranslate, open_translator, parse, progress_bar


@dataclass(frozen=True)
class CalibrateOptions(OfCheckpoint, ToTranslate):
    """Calibrate how sure a model is, on sentences with translations.

    From then on `quality` in the records of `translate --format jsonl` is the chrF to expect, from 0 to 1, and
    `word_quality` how probably each word is right. Without --source and --reference: the validation sets of the run.
    Training does this when it ends.
    """

    source: Path | None = None  # a text file, one sentence per line; best none that the model was trained on
    reference: tuple[Path, ...] = ()  # its translations, line by line
    trust_data: bool = False  # read the validation sets that the run names, though somebody else may have made the run
    data: DataConfig = field(default_factory=DataConfig)


def main(argv: list[str]) -> None:
    options = parse('calibrate', CalibrateOptions, argv, task='translation')
    check_files(options.source, options.reference)
    if len(options.reference) > 1:
        raise UserError(f'--reference: got {len(options.reference)} files, expected one')

    from flax_transformer.tasks.translation.calibration import calibrate
    from flax_transformer.tasks.translation.inference.quality import FILE

    run = split_reference(argv[0])[0]
    sets = _sets(run, options)
    translator = open_translator(argv[:1], options)
    with progress_bar(sum(len(sources) for _, sources, _ in sets), 'sentences') as bar:
        calibration = calibrate(translator, sets, bar.update)
    calibration.write(run)
    print(f'{run / FILE}: calibrated on {calibration.num_sentences:,} sentences')


def _sets(run: Path, options: CalibrateOptions) -> list[tuple[dict[str, str | None], list[str], list[str]]]:
    """The languages of each set, as `calibrate` takes them, its sources and references."""
    from flax_transformer.data.bitext.sources import read_validation
    from flax_transformer.data.bitext.text_files import read_text_files
    from flax_transformer.engine.runs.trust import is_remembered, remember

    data = options.data
    if options.source is not None:
        pairs = read_text_files(options.source, *options.reference)
        return [({}, pairs.sources, pairs.targets)]
    if options.trust_data:
        remember(run)
    if not is_remembered(run):
        raise UserError(
            f'{run} was not trained here by you, and its config says what to read; give --source and --reference, or, '
            'if you trust where the run comes from, --trust-data, once'
        )
    chosen = [corpus for corpus in data.corpora if corpus.has_validation]
    if not chosen:
        raise UserError(f'{run} has no validation set (data.validation is empty); give --source and --reference')
    languages = [{'source_language': each.source_language, 'target_language': data.tag_of(each)} for each in chosen]
    every = [read_validation(corpus, data) for corpus in chosen]
    return [(named, pairs.sources, pairs.targets) for named, pairs in zip(languages, every, strict=True)]

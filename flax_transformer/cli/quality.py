"""The commands `score`, `calibrate`, `analyze` and `compare`: how good translations are."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flax_transformer.common.errors import UserError, visible
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.translation.evaluate import check_files, read_set, tokens_of

from .lines import CHUNK, LineWriter, to_json
from .options import OfCheckpoint, ToTranslate, open_translator, parse, positional, progress_bar, read_run_config

if TYPE_CHECKING:
    from flax_transformer.data.bitext.corpus import References
    from flax_transformer.tasks.translation.significance import ChangedLine, Comparison


FIELDS = ('score', 'log_prob', 'num_tokens', 'tokens', 'token_log_probs', 'quality', 'word_quality')  # in JSON


@dataclass(frozen=True)
class ScoreOptions(ToTranslate):
    """Score given translations with a model: a line each, `score log-probability tokens`.

    The score is normalized as in a search with these fields. Several RUNs vote as an ensemble.
    """

    source: Path | None = None  # a text file, one sentence per line
    target: Path | None = None  # its translations, line by line
    output: Path | None = None  # a file to write instead of standard output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with tokens and their log-probabilities
    alignment: bool = False  # add word alignments by attention, as the last column or in JSON


def score(argv: list[str]) -> None:
    options = parse('score', ScoreOptions, argv, task='translation', most=None)
    if options.source is None or options.target is None:
        raise UserError('score compares two files: give --source and --target')

    from flax_transformer.data.bitext.text_files import read_text_files
    from flax_transformer.tasks.translation.inference.result import pharaoh

    pairs = read_text_files(options.source, options.target)
    translator = open_translator(positional(argv), options)
    with LineWriter(options.output) as writer, progress_bar(len(pairs), 'lines') as bar:
        for first in range(0, len(pairs), CHUNK):
            part = slice(first, first + CHUNK)
            scored = translator.score(pairs.sources[part], pairs.targets[part], alignment=options.alignment)
            lines = []
            for translation in scored:
                links = pharaoh(translation.alignment or ())
                if options.format == 'jsonl':
                    record = {key: getattr(translation, key) for key in FIELDS}
                    if options.alignment:
                        record['alignment'] = links
                    lines.append(to_json(record))
                else:
                    numbers = f'{translation.score:.6f} {translation.log_prob:.6f} {translation.num_tokens}'
                    lines.append(f'{numbers}\t{links}' if options.alignment else numbers)
            writer.write(lines)
            bar.update(len(scored))


@dataclass(frozen=True)
class OnSet:
    source: Path | None = None  # a text file, one sentence per line
    reference: tuple[Path, ...] = ()  # its translations, line by line
    trust_data: bool = False  # read the sets that the run names, though somebody else may have made the run
    data: DataConfig = field(default_factory=DataConfig)


@dataclass(frozen=True)
class CalibrateOptions(OfCheckpoint, ToTranslate, OnSet):
    """Calibrate how sure a model is, on sentences with translations.

    From then on `quality` in the records of `translate --format jsonl` is the chrF to expect, from 0 to 1, and
    `word_quality` how probably each word is right. Without --source and --reference: the validation sets of the run.
    Training does this when it ends. Sentences that the model was trained on tell less.
    """


def calibrate(argv: list[str]) -> None:
    options = parse('calibrate', CalibrateOptions, argv, task='translation')
    _check_files(options)

    from flax_transformer.tasks.translation import calibration
    from flax_transformer.tasks.translation.inference.quality import FILE

    run = split_reference(argv[0])[0]
    sets = _sets_of(run, options)
    translator = open_translator(argv[:1], options)
    with progress_bar(sum(len(sources) for _, sources, _ in sets), 'sentences') as bar:
        measured = calibration.calibrate(translator, sets, bar.update)
    measured.write(run)
    print(f'{run / FILE}: calibrated on {measured.num_sentences:,} sentences')


def _check_files(options: OnSet) -> None:
    check_files(options.source, options.reference)
    if len(options.reference) > 1:
        raise UserError(f'--reference: got {len(options.reference)} files, expected one')


def _sets_of(run: Path, options: CalibrateOptions) -> list[tuple[dict[str, str | None], list[str], list[str]]]:
    """The languages of each set, as `calibrate` takes them, its sources and references."""
    from flax_transformer.data.bitext.sources import read_validation
    from flax_transformer.data.bitext.text_files import read_text_files
    from flax_transformer.engine.runs.trust import refuse_stranger

    data = options.data
    if options.source is not None:
        pairs = read_text_files(options.source, *options.reference)
        return [({}, pairs.sources, pairs.targets)]
    refuse_stranger(run, trust=options.trust_data, remedy='give --source and --reference, or, ')
    chosen = [corpus for corpus in data.corpora if corpus.has_validation]
    if not chosen:
        raise UserError(f'{run} has no validation set (data.validation is empty); give --source and --reference')
    sets = []
    for corpus in chosen:
        languages = {'source_language': corpus.source_language, 'target_language': data.tag_of(corpus)}
        pairs = read_validation(corpus, data)
        sets.append((languages, pairs.sources, pairs.targets))
    return sets


@dataclass(frozen=True)
class AnalyzeOptions(ToTranslate, OnSet):
    """Tell faults of the search from faults of the model, over beam widths.

    For each line the model scores the reference and its own translation as the search does: if the reference scores
    higher, the search missed it; else the model prefers something wrong. Without --source and --reference: the run's
    test set.
    """

    widths: tuple[int, ...] = (1, 2, 4, 8, 16)  # beam widths
    examples: int = 3  # faults of each kind to print, at the beam width nearest the run's own
    json: bool = False  # print a JSON object per width instead


def analyze(argv: list[str]) -> None:
    options = parse('analyze', AnalyzeOptions, argv, task='translation', most=None)
    runs = positional(argv)
    _check_files(options)
    if not options.widths or min(options.widths) < 1:
        raise UserError(f'--widths {options.widths}: expected at least one beam width, each at least 1')

    from flax_transformer.tasks.translation import evaluation
    from flax_transformer.tasks.translation.metrics import note_on

    tokens = tokens_of(options.data, options.decoding.target_language)
    name, pairs = read_set(runs[0], options.source, options.reference, options.data, trust=options.trust_data)
    translator = open_translator(runs, options)
    with progress_bar(len(pairs) * len(options.widths), 'sentences') as bar:
        reports = evaluation.analyze(translator, pairs, options.widths, tokens=tokens, progress=bar.update)
    if options.json:
        for report in reports:
            print(json.dumps({key: value for key, value in asdict(report).items() if key != 'faults'}))
        return
    own = min(reports, key=lambda report: abs(report.beam_width - options.decoding.beam_width))
    for kind, is_of_search in (('search', True), ('model', False)):
        for fault in [fault for fault in own.faults if fault.is_of_search is is_of_search][: options.examples]:
            print(f'fault of the {kind}, beam {own.beam_width}')
            print(f'  source                {visible(fault.source)}')
            print(f'  reference  {fault.reference_score:9.4f}  {visible(fault.reference)}')
            print(f'  output     {fault.translation_score:9.4f}  {visible(fault.translation)}\n')
    print(f'{name}, {len(pairs):,} lines, {own.num_left_out} of them left out of the faults (blank, or split)')
    print(evaluation.table(reports))
    if note := note_on(tokens, pairs.targets):
        print(f'  {note}')
    print(evaluation.recommendation(reports))


_SYSTEMS = 'RUN|FILE RUN|FILE'


@dataclass(frozen=True)
class CompareOptions(OnSet):
    """Is the second system better than the first?

    Each is a run directory, which translates with its own decoding fields, or a file of translations; two files need
    --reference alone. Prints the scores, their difference with its 95 % interval, how probable such a difference is if
    the two are equally good (paired bootstrap resampling and paired approximate randomization), a verdict by the
    latter, and the lines that changed most.
    """

    # Its translations, line by line; several files, or columns of a .tsv, are several references per line.
    reference: tuple[Path, ...] = ()
    resamples: int = 1000  # how often the bootstrap draws
    trials: int = 10_000  # how often the randomization swaps
    examples: int = 3  # lines to print of those that changed most
    json: bool = False  # print a JSON object per metric instead
    data: DataConfig = field(default_factory=DataConfig)  # the first run's: its test set, and the language for BLEU
    parallel: ParallelConfig = field(default_factory=ParallelConfig)


def compare(argv: list[str]) -> None:
    names = positional(argv)
    runs = [name for name in names if not Path(name).is_file()]
    default = CompareOptions(data=read_run_config(runs[0], 'translation').data) if runs else CompareOptions()
    options = parse('compare', CompareOptions, argv, first=_SYSTEMS, default=default, most=None)
    if len(names) != 2:
        raise UserError(f'compare: got {len(names)} systems, expected two: compare {_SYSTEMS}')
    for name, least in (('resamples', 1), ('trials', 1), ('examples', 0)):
        if getattr(options, name) < least:
            raise UserError(f'--{name} {getattr(options, name)}: expected at least {least}')
    if not runs and not options.reference:
        raise UserError('two files of translations: give --reference too (and --source, to print the sources)')
    if runs:
        check_files(options.source, options.reference)
        options.parallel.prepare_devices()

    from flax_transformer.tasks.translation.metrics import NO_TER, note_on
    from flax_transformer.tasks.translation.significance import changed_lines, paired_tests

    tokens = tokens_of(options.data)
    sources, references = _read(runs, options)
    made = {name: _output(name, sources, options.parallel) for name in dict.fromkeys(names)}
    outputs = [made[name] for name in names]
    sizes = {'resamples': options.resamples, 'trials': options.trials}
    comparisons = paired_tests(*outputs, references, tokens=tokens, **sizes)
    if options.json:
        for comparison in comparisons:
            print(json.dumps(asdict(comparison)))
        return

    print(f'{len(outputs[0]):,} lines; baseline {names[0]}, system {names[1]}')
    _print_table(comparisons)
    print(f'{options.resamples:,} resamples, {options.trials:,} trials')
    for comparison in comparisons:
        print(f'  {comparison.metric} {comparison.signature}')
    if note := note_on(tokens, references[0]):
        print(f'  {note}')
    if comparisons[-1].metric != 'TER':
        print(f'  {NO_TER}')

    changed = changed_lines(*outputs, references)
    if not changed:
        print('\nthe two gave the same translations')
        return
    bleu, chrf, *_ = comparisons
    decisive = bleu if bleu.baseline or bleu.system else chrf  # BLEU is 0 if no translation has four tokens in a row
    print(f'\n{decisive.verdict(*names)}')
    _print_examples(changed, options.examples, sources, references, outputs)


def _print_table(comparisons: 'list[Comparison]') -> None:
    print('metric   baseline  system  difference       95 % interval  p by bootstrap  p by randomization')
    for row in comparisons:
        interval = f'{row.low:+.2f} to {row.high:+.2f}'
        print(
            f'{row.metric:<8}{row.baseline:9.2f}{row.system:8.2f}{row.difference:+12.2f}{interval:>20}'
            f'{row.p_bootstrap:16.4f}{row.p_randomization:20.4f}'
        )


def _print_examples(
    changed: 'list[ChangedLine]',
    most: int,
    sources: list[str] | None,
    references: 'list[References]',
    outputs: list[list[str]],
) -> None:
    print(f'{len(changed):,} of {len(outputs[0]):,} lines differ' + ('; most, by chrF2 of the line:' if most else ''))
    for line in changed[:most]:
        print(f'\nline {line.index + 1}: chrF2 {line.baseline:.1f} -> {line.system:.1f}')
        if sources is not None:
            print(f'  source     {visible(sources[line.index])}')
        for reference in references:
            if reference[line.index] is not None:
                print(f'  reference  {visible(reference[line.index])}')
        for name, output in zip(('baseline', 'system'), outputs, strict=True):
            print(f'  {name:<9}  {visible(output[line.index])}')


def _read(runs: list[str], options: CompareOptions) -> 'tuple[list[str] | None, list[References]]':
    is_sourceless = not runs and options.source is None
    source = options.reference[0] if is_sourceless else options.source  # any file of as many lines
    run = runs[0] if runs else ''
    _, pairs = read_set(run, source, options.reference, options.data, trust=options.trust_data)
    return None if is_sourceless else pairs.sources, [pairs.targets, *pairs.references]


def _output(name: str, sources: list[str] | None, parallel: ParallelConfig) -> list[str]:
    if Path(name).is_file():
        from flax_transformer.data.lines import read_lines

        return read_lines(Path(name))

    from flax_transformer.tasks.translation.inference.translator import Translator

    with progress_bar(len(sources), 'sentences') as bar:
        translator = Translator.from_run(name, parallel=parallel, literals='ignored')
        return [translation.text for translation in translator(sources, progress=bar.update)]

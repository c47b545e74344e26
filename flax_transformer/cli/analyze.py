"""The command `analyze`."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flax_transformer.common.errors import UserError, visible
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.tasks.translation.evaluate import check_files, read_set, tokens_of

from .options import ToTranslate, open_translator, parse, positional, progress_bar


@dataclass(frozen=True)
class AnalyzeOptions(ToTranslate):
    """Tell faults of the search from faults of the model, over beam widths.

    For each line the model scores the reference and its own translation as the search does: if the reference scores
    higher, the search missed it; else the model prefers something wrong. Without --source and --reference: the run's
    test set.
    """

    source: Path | None = None  # a text file, one sentence per line
    reference: tuple[Path, ...] = ()  # its translations, line by line
    widths: tuple[int, ...] = (1, 2, 4, 8, 16)  # beam widths
    examples: int = 3  # faults of each kind to print, at the beam width nearest the run's own
    trust_data: bool = False  # read the test set that the run names, though somebody else may have made the run
    json: bool = False  # print a JSON object per width instead
    data: DataConfig = field(default_factory=DataConfig)


def main(argv: list[str]) -> None:
    options = parse('analyze', AnalyzeOptions, argv, task='translation', most=None)
    runs = positional(argv)
    check_files(options.source, options.reference)
    if len(options.reference) > 1:
        raise UserError(f'--reference: got {len(options.reference)} files, expected one to compare with')
    if not options.widths or min(options.widths) < 1:
        raise UserError(f'--widths {options.widths}: expected at least one beam width, each at least 1')

    from flax_transformer.tasks.translation.evaluation import analyze, recommendation, table
    from flax_transformer.tasks.translation.metrics import note_on

    tokens = tokens_of(options.data, options.decoding.target_language)
    name, pairs = read_set(runs[0], options.source, options.reference, options.data, trust=options.trust_data)
    translator = open_translator(runs, options)
    with progress_bar(len(pairs) * len(options.widths), 'sentences') as bar:
        reports = analyze(translator, pairs, options.widths, tokens=tokens, progress=bar.update)
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
    print(table(reports))
    if note := note_on(tokens, pairs.targets):
        print(f'  {note}')
    print(recommendation(reports))

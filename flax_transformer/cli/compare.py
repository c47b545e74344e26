"""The command `compare`."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flax_transformer.common.errors import UserError, visible
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.tasks.translation.evaluate import check_files, read_set, tokens_of

from .options import parse, positional, progress_bar, read_run_config

if TYPE_CHECKING:
    from flax_transformer.data.bitext.corpus import References
    from flax_transformer.tasks.translation.significance import ChangedLine, Comparison

FIRST = 'RUN|FILE RUN|FILE'


@dataclass(frozen=True)
class CompareOptions:
    """Is the second system better than the first?

    Each is a run directory, which translates with its own decoding fields, or a file of translations; two files need
    --reference alone. Prints the scores, their difference with its 95 % interval, how probable such a difference is if
    the two are equally good (paired bootstrap resampling and paired approximate randomization), a verdict by the
    latter, and the lines that changed most.
    """

    source: Path | None = None  # a text file, one sentence per line
    # Its translations, line by line; several files, or columns of a .tsv, are several references per line.
    reference: tuple[Path, ...] = ()
    resamples: int = 1000  # how often the bootstrap draws
    trials: int = 10_000  # how often the randomization swaps
    examples: int = 3  # lines to print of those that changed most
    trust_data: bool = False  # read the test set that the run names, though somebody else may have made the run
    json: bool = False  # print a JSON object per metric instead
    data: DataConfig = field(default_factory=DataConfig)  # the first run's: its test set, and the language for BLEU
    parallel: ParallelConfig = field(default_factory=ParallelConfig)


def main(argv: list[str]) -> None:
    names = positional(argv)
    runs = [name for name in names if not Path(name).is_file()]

    def default(_: str) -> CompareOptions:
        return CompareOptions(data=read_run_config(runs[0], 'translation').data) if runs else CompareOptions()

    options = parse('compare', CompareOptions, argv, first=FIRST, default=default, most=None)
    if len(names) != 2:
        raise UserError(f'compare: got {len(names)} systems, expected two: compare {FIRST}')
    for name, least in (('resamples', 1), ('trials', 1), ('examples', 0)):
        if getattr(options, name) < least:
            raise UserError(f'--{name} {getattr(options, name)}: expected at least {least}')
    if not runs and not options.reference:
        raise UserError('two files of translations: give --reference too (and --source, to print the sources)')
    if runs:
        check_files(options.source, options.reference)

        from flax_transformer.engine.devices.devices import prepare_devices

        prepare_devices(options.parallel.num_devices)

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
    """The sources, None if no run needs them and no file gives them, and the sets of references."""
    is_sourceless = not runs and options.source is None
    source = options.reference[0] if is_sourceless else options.source  # any file of as many lines
    run = runs[0] if runs else ''
    _, pairs = read_set(run, source, options.reference, options.data, trust=options.trust_data)
    return None if is_sourceless else pairs.sources, [pairs.targets, *pairs.references]


def _output(name: str, sources: list[str] | None, parallel: ParallelConfig) -> list[str]:
    """A run's translations of the sources, or the lines of a file."""
    if Path(name).is_file():
        from flax_transformer.data.lines import read_lines

        return read_lines(Path(name))

    from flax_transformer.tasks.translation.inference.translator import Translator

    with progress_bar(len(sources), 'sentences') as bar:
        translator = Translator.from_run(name, parallel=parallel)
        return [translation.text for translation in translator(sources, progress=bar.update)]

"""`flax-transformer compare BASELINE SYSTEM [--source F --reference F ...]`, each a run or a file of translations."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flax_transformer.cli.evaluate import check_files, read_set, tokens_of
from flax_transformer.cli.options import parse, positional, progress_bar, read_run_config
from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.config.parallel import ParallelConfig

DESCRIPTION = """Is the second system better than the first? RUN is a run directory or a file of translations; each run
translates with its own decoding fields. Prints the scores, their difference, and how probable such a difference is if
the two are equally good, by sacreBLEU's paired bootstrap resampling and paired approximate randomisation."""


@dataclass(frozen=True)
class CompareOptions:
    source: Path | None = None  # a text file, one sentence per line
    reference: tuple[Path, ...] = ()  # its translations, line by line; several files: several references per line
    resamples: int = 1000  # of the bootstrap
    trials: int = 10_000  # of the randomisation
    trust_data: bool = False  # read the test set that the run names, though somebody else may have made the run
    json: bool = False  # print a JSON object per metric instead
    data: DataConfig = field(default_factory=DataConfig)  # of the first run: its test set, and the language for BLEU
    parallel: ParallelConfig = field(default_factory=ParallelConfig)


def main(argv: list[str]) -> None:
    names = positional(argv)
    defaults = lambda _: _defaults(names)
    options = parse('compare', CompareOptions, argv, first='RUN', description=DESCRIPTION, default=defaults, most=None)
    if len(names) != 2:
        raise UserError(f'compare: got {len(names)} systems, expected two: compare RUN RUN, or files of translations')
    check_files(options.source, options.reference)
    for name in ('resamples', 'trials'):
        if getattr(options, name) < 1:
            raise UserError(f'--{name} {getattr(options, name)}: expected at least 1')

    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(options.parallel.num_devices)

    from flax_transformer.tasks.translation.metrics import paired_tests
    from flax_transformer.tasks.translation.score_tokens import note_on

    if options.source is None and all(map(_is_file, names)):
        raise UserError('two files of translations: give --source and --reference too')
    run = next((name for name in names if not _is_file(name)), names[0])
    tokens = tokens_of(options.data)
    _, pairs, more = read_set(run, options.source, options.reference, options.data, trust=options.trust_data)
    outputs = [_output(name, pairs.sources, options.parallel) for name in names]
    sizes = {'resamples': options.resamples, 'trials': options.trials}
    found = paired_tests(*outputs, [pairs.targets, *more], tokens=tokens, **sizes)
    if options.json:
        for one in found:
            print(json.dumps(asdict(one)))
        return
    print(f'{len(pairs):,} lines; baseline {names[0]}, system {names[1]}')
    print('metric   baseline  system  difference  p by bootstrap  p by randomisation')
    for one in found:
        print(
            f'{one.metric:<8}{one.baseline:9.2f}{one.system:8.2f}{one.difference:+12.2f}{one.p_bootstrap:16.4f}'
            f'{one.p_randomisation:20.4f}'
        )
    print(f'{options.resamples:,} resamples, {options.trials:,} trials')
    for one in found:
        print(f'  {one.metric} {one.signature}')
    if note := note_on(tokens, pairs.targets):
        print(f'  {note}')


def _output(name: str, sources: list[str], parallel: ParallelConfig) -> list[str]:
    """A run's translations of the sources, or the lines of a file."""
    from flax_transformer.data.lines import read_lines
    from flax_transformer.tasks.translation.inference.translator import Translator

    if _is_file(name):
        return read_lines(Path(name))
    with progress_bar(len(sources), 'sentence') as bar:
        translator = Translator.from_run(name, parallel=parallel)
        return [translation.text for translation in translator(sources, progress=bar.update)]


def _is_file(name: str) -> bool:
    return Path(name).is_file()


def _defaults(names: list[str]) -> CompareOptions:
    run = next((name for name in names if not _is_file(name)), None)
    # A file of translations has no test set.
    return CompareOptions() if run is None else CompareOptions(data=read_run_config(run, 'translation').data)

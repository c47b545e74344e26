"""`flax-transformer new MY_CONFIG.py --source FILE --target FILE`."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.cli.options import note, parse, read_config_file
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.audit.config import CheckConfig

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.new_config import Corpora

DESCRIPTION = """Look at two aligned text files, and write a commented config of a fitting size for them. Without
--valid-source and --valid-target, some pairs are held out: the files are copied into a folder next to the config,
without those pairs. Then measures a few small training steps and predicts how long training will take here."""
HELD_OUT = 1000  # pairs, but at most one in ten
LEAST = 10  # pairs


@dataclass(frozen=True)
class NewOptions:
    source: Path | None = None  # a text file, one sentence a line, plain or compressed
    target: Path | None = None  # its translations, line by line
    valid_source: Path | None = None  # another text file, to choose the best checkpoint by
    valid_target: Path | None = None  # its translations
    test_source: Path | None = None  # another text file, for the final score
    test_target: Path | None = None  # its translations
    source_language: str | None = None  # such as en; None: from the end of the file's name, else from the text
    target_language: str | None = None  # such as de; None: likewise
    measure: bool = True  # measure how fast this machine is, to predict the time; takes some ten seconds


def main(argv: list[str]) -> None:
    options = parse('new', NewOptions, argv, DESCRIPTION, first='MY_CONFIG.py', default=lambda _: NewOptions())
    file = Path(argv[0])
    _check(file, options)

    from flax_transformer.tasks.translation.corpus_facts import fit_vocabulary, language_of, read_facts
    from flax_transformer.tasks.translation.new_config import config_text, sizes_of, tier_of

    facts = read_facts(options.source, options.target)
    languages, notes = zip(
        language_of(options.source, facts.sample.sources, 'source', options.source_language),
        language_of(options.target, facts.sample.targets, 'target', options.target_language),
        strict=True,
    )
    for line in filter(None, notes):
        note(line)
    if languages[0] == languages[1]:
        raise UserError(
            f'{options.source} and {options.target}: got {languages[0]} on both sides, expected two languages; '
            'give --source-language and --target-language'
        )
    if facts.pairs < LEAST:
        raise UserError(f'{options.source}: got {facts.pairs} sentence pairs, expected at least {LEAST}')
    held_out = min(HELD_OUT, facts.pairs // 10) if options.valid_source is None else 0
    wanted = tier_of(facts.pairs).vocab_size
    pieces = fit_vocabulary(facts, wanted, CheckConfig().characters_per_piece, held_out=held_out)
    sizes = sizes_of(facts, pieces, held_out=held_out)
    corpora = _corpora(file, options, languages, held_out)
    files = f'{options.source.name} and {options.target.name}'
    write_whole(file, config_text(str(file), files, languages, corpora, facts, sizes))
    config = read_config_file(str(file), 'translation')
    print(f'{files}: {facts.pairs:,} pairs {"-".join(languages)}')
    for name, words, tokens in zip(('source', 'target'), facts.words, pieces.per_pair, strict=True):
        print(f'  {name}  {words:,} words, {words / facts.pairs:.1f} a line, {tokens:.1f} tokens')
    if corpora.validation and options.valid_source is None:
        print(f'  validation pairs are held out in {file.with_suffix(".data")}')
    print(f'{file}: a {sizes.tier.name} model of {sizes.vocab_size:,} pieces, rows of {sizes.row} tokens')
    print(f'  {sizes.steps:,} steps of {sizes.tier.tokens_per_step:,} tokens: some {sizes.epochs:.0f} passes')
    if options.measure:
        print(_prediction(config))
    test = '' if corpora.test else f' --source test.{languages[0]} --reference test.{languages[1]}'
    config_file, run = shlex.quote(str(file)), f'runs/{shlex.quote(file.stem)}'
    print('Next:')
    for line in (
        f'check {config_file}',
        f'train {config_file} --workdir {run}',
        f'translate {run} < lines > translations',
        f'evaluate {run}{test}',
    ):
        print(f'  flax-transformer {line}')


def _check(file: Path, options: NewOptions) -> None:
    """Raises UserError before anything is read."""
    if file.suffix != '.py':
        raise UserError(f'new: got {file}, expected the name of the Python file to write, such as my_config.py')
    if file.exists():
        raise UserError(f'{file} exists; give another name, or remove it')
    if options.source is None or options.target is None:
        raise UserError(f'new: give --source and --target, as in: new {file} --source train.en --target train.de')
    for kind in ('valid', 'test'):
        given = [getattr(options, f'{kind}_{side}') is not None for side in ('source', 'target')]
        if any(given) and not all(given):
            raise UserError(f'got one of --{kind}-source and --{kind}-target, expected both or neither')
    if not file.absolute().parent.is_dir():
        raise UserError(f'{file}: there is no folder {file.parent}')
    for given in (file, *(getattr(options, name) for name in vars(options))):
        if isinstance(given, Path):
            if given != file and not given.is_file():
                raise UserError(f'{given} does not exist, or is not a file')
            if ',' in str(given.absolute()) or '{lang}' in str(given.absolute()):
                raise UserError(f'{given.absolute()}: a comma or {{lang}} has a meaning in names of corpora; rename it')


def _corpora(file: Path, options: NewOptions, languages: tuple[str, str], held_out: int) -> 'Corpora':
    """The corpora of the config; holds out validation pairs if none are given."""
    from flax_transformer.tasks.translation.corpus_facts import hold_out
    from flax_transformer.tasks.translation.new_config import Corpora

    test = _name(options.test_source, options.test_target, languages)
    if options.valid_source is not None:
        train = _name(options.source, options.target, languages)
        return Corpora(train, _name(options.valid_source, options.valid_target, languages), test)
    folder = file.absolute().with_suffix('.data')
    train, validation = hold_out(options.source, options.target, folder, languages, held_out)
    return Corpora(train, validation, test)


def _name(source: Path | None, target: Path | None, languages: tuple[str, str]) -> str:
    """The name of the corpus in two files, whose paths do not depend on the working directory."""
    if source is None:
        return ''
    paths = [str(path.absolute()) for path in (source, target)]
    head, _, tail = paths[0].rpartition(f'.{languages[0]}')
    if head and f'{head}.{languages[1]}{tail}' == paths[1]:
        return f'{head}.{{lang}}{tail}'
    return ','.join(paths)


def _prediction(config: Any) -> str:
    """How long training will take here, from the speed of a few steps of a model with fewer layers and rows."""
    from flax_transformer.engine.devices.devices import prepare_devices

    prepare_devices(config.parallel.least_devices)

    from flax_transformer.cost.step_cost import training_flops
    from flax_transformer.tasks.find import make_trainer
    from flax_transformer.tasks.translation.task import TranslationTask

    model = replace(config.model, num_encoder_layers=1, num_decoder_layers=1)
    slots = min(config.training.tokens_per_step, 2048)
    small = replace(config, model=model, training=replace(config.training, tokens_per_step=slots))
    speed = training_flops(make_trainer(small))
    seconds = TranslationTask(config).flops_per_step / speed
    total = seconds * config.training.steps
    return (
        f'Training will take about {_rounded(total)} on this machine, as busy as it is now: '
        f'{config.training.steps:,} steps of {seconds:.2g} s. Predicted from steps of a model with one layer a '
        f'side, measured at {speed / 1e9:.0f} GFLOP/s'
    )


def _rounded(seconds: float) -> str:
    """A duration as a person would give it.

    >>> [_rounded(seconds) for seconds in (20, 100, 7000, 9000)]
    ['1 minute', '2 minutes', '117 minutes', '2 hours']
    """
    unit, size = ('hour', 3600) if seconds > 7200 else ('minute', 60)
    count = max(round(seconds / size), 1)
    return f'{count} {unit}{"s" * (count > 1)}'

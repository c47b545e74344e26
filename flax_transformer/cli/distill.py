"""The command `distill`."""

import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check_range
from flax_transformer.common.files import write_whole
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.shards import RECORD
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.engine.runs.trust import remember
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.new_config import fit
from flax_transformer.tasks.translation.inference.directions import direction, pairs_of
from flax_transformer.tasks.translation.new_config import check_path
from flax_transformer.tasks.translation.taught import Taught
from flax_transformer.text.languages import UNDETERMINED, two_letters

from . import train
from .card import CardOptions, card_of
from .new import config_text
from .options import ToTranslate, note, parse, positional, print_next, read_config_file, trainer_on_one_device
from .translate import TranslateOptions, translate_shard

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.inference.translator import Translator

Pair = tuple[str, str]  # languages, as the teacher names them


@dataclass(frozen=True)
class DistillOptions(ToTranslate):
    """Train a small, fast model on what a large one translates: NAME.py is its config, runs/NAME-int8 the model.

    A TEACHER is a run or a model by its name; several are an ensemble. Or they are translations that are there
    already: a file for each of --source, or a folder by `translate --shard`. The same command goes on where it was
    stopped.
    """

    source: tuple[Path, ...] = ()  # text files for the teacher to translate, one sentence a line
    reference: tuple[Path, ...] = ()  # their translations by people, line by line
    both: bool = False  # make a model of both directions, the references being the sources of the other one
    backward: str | None = None  # a run of the other direction that scores the pairs, as teachers of both do themselves
    minutes: float = 60.0  # how long to train, once all is translated
    megabytes: float = 10.0  # how much the weights may take, in eight bits

    def __post_init__(self) -> None:
        check_range(self, 'minutes', 'megabytes', above=0, below=1e6)


def main(argv: list[str]) -> None:
    given = _translations(positional(argv)[:-1])
    default = DistillOptions() if given else None
    options = parse('distill', DistillOptions, argv, first='TEACHER ... NAME.py', default=default, most=None)
    *teachers, name = positional(argv)
    file = Path(name)
    folder = file.with_suffix('.data')
    trained, made = Path('runs', file.stem), Path('runs', f'{file.stem}-int8')
    if not teachers or file.suffix != '.py' or not options.source:
        raise UserError('distill: expected TEACHER ... NAME.py --source FILE ...')
    check_path(folder)
    if options.both and (given or not options.reference):
        raise UserError('--both: expected a model, and --reference, the sources of the other direction')
    layers = folder / 'raw' / 'layers'  # those of the teacher that the student begins with
    there = ', '.join(str(path) for path in (file, trained, made) if path.exists())
    if there and not folder.exists():
        raise UserError(f'{there} exists; give another name, or remove it')
    directions = _directions(teachers, options, are_given=bool(given))
    taught = Taught(options.source, options.reference, given)
    if options.backward:
        _known(options.backward)  # raises if it is no run

    command = f'flax-transformer distill {shlex.join(argv)}'
    if not file.exists():
        from flax_transformer.tasks.translation.distillation import start_of, students
        from flax_transformer.tasks.translation.fewer_layers import write_fewer_layers

        start = None if given else start_of(teachers[0], directions, options.megabytes)
        _translate(teachers, options, taught, folder / 'raw', directions)
        text, candidates = students(folder, [*directions], options.megabytes, start)
        (fitted,) = fit(candidates, 60 * options.minutes)
        shutil.rmtree(layers, ignore_errors=True)  # a start that was stopped, or other options, left them
        if fitted.start is not None:
            write_fewer_layers(teachers[0], layers, replace(fitted.start, model=fitted.config.model))
        write_whole(file, config_text(fitted.config, f'{command}\n\n{text}\n', {}))
    elif f'{command}\n' not in file.read_text('utf-8', 'replace'):
        note(f'{file} is of another command, whose options hold; for those given now remove {there}')
    if not made.exists():
        from flax_transformer.engine.runs.averaging import average

        begins_with = layers if layers.exists() else None
        train.train_as_asked(train.TrainOptions(read_config_file(name, None), trained, begins_with))
        new = folder / 'raw' / made.name
        shutil.rmtree(new, ignore_errors=True)  # of a start that was stopped
        run = open_run(trained)
        # A teacher may have learned from the lines held out: its layers would be best before they learn anything else.
        choice = {'last': 1} if begins_with else {'best': 1}
        average(run, new, trainer_on_one_device(run.read_config()).shapes.params, **choice, int8=True)
        _write_card(new, [] if given else teachers, options, directions)
        new.rename(made)
        remember(made)
    print_next(f'The model is in {made}', f'flax-transformer translate {shlex.quote(str(made))} < lines')


def _translations(teachers: list[str]) -> tuple[Path, ...]:
    """The files of translations, or the folder of them, that are the teachers; none if these are models."""
    paths = tuple(map(Path, teachers))
    are_files = [path.is_file() for path in paths]
    is_folder = len(paths) == 1 and Path(paths[0], RECORD).is_file()
    if is_folder or all(are_files):
        return paths
    if any(are_files):
        raise UserError(f'{", ".join(teachers)}: expected models, or files of translations')
    return ()


def _directions(teachers: list[str], options: DistillOptions, *, are_given: bool) -> dict[str, Pair]:
    """The languages to learn from and into, by names such as en-de."""
    pair = options.decoding.source_language, options.decoding.target_language
    if not are_given:
        pair = _languages(teachers[0], *pair, both=options.both)
    short = [two_letters(language or UNDETERMINED) for language in pair]
    if len({*short, UNDETERMINED}) < 3 or not ''.join(short).isalpha():
        raise UserError(f'{teachers[0]}: from {pair[0]} to {pair[1]}; expected two languages, by --from and --to')
    directions = {'-'.join(short): pair}
    if options.both:
        directions['-'.join(short[::-1])] = pair[::-1]
    return directions


def _languages(teacher: str, source: str | None, target: str | None, *, both: bool) -> Pair:
    known, data = _known(teacher)
    source, target = direction(known, source, target)
    pair = source or data.source_language, target or data.target_language
    if both:
        direction(known, *pair[::-1])  # raises if it is not known
    return pair


def _known(name: str) -> tuple[Sequence[Pair], DataConfig]:
    """The pairs of languages that a run has learned, and its data."""
    run = open_run(split_reference(name)[0])
    data = run.read_config().data
    return pairs_of(data, run.read_tokenizer()), data


def _translate(
    teachers: list[str], options: DistillOptions, taught: Taught, raw: Path, directions: dict[str, Pair]
) -> None:
    """Writes the pairs to learn from."""
    from flax_transformer.tasks.translation.distillation import score_backward, write_pairs

    taught.check()
    raw.mkdir(parents=True, exist_ok=True)
    are_given = bool(taught.translations)
    for name, pair in directions.items():
        own = taught
        if not are_given:
            own = taught.translated(raw / name)
            n_best = options.decoding.num_candidates if taught.references else 1
            decoding = replace(options.decoding, n_best=n_best, **_named(*pair))
            written = {'output': raw / name, 'shard': '1/1', 'format': 'jsonl', 'input_format': 'text'}
            to_translate = TranslateOptions(decoding=decoding, parallel=options.parallel, **written)
            remedy = f'Give another name than {raw.parent.stem}.py, or remove {raw.parent}'
            translate_shard(teachers, to_translate, taught.files, remedy)
        scores = None
        if backward := _backward([] if are_given else teachers, options, pair):
            scores = raw / f'{name}.backward'
            score_backward(backward, own, scores)
        note(write_pairs(raw / name, own, scores))
        taught = taught.reversed()


def _backward(teachers: list[str], options: DistillOptions, pair: Pair) -> 'Translator | None':
    """What scores translations back into their sources: the teachers, if they know how, or the run that is given."""
    from flax_transformer.tasks.translation.inference.translator import Translator

    known = [_known(run)[0] for run in teachers]
    runs = teachers if all(not pairs or pair[::-1] in pairs for pairs in known) else []
    if not runs and options.backward:
        runs = [options.backward]
    return Translator.from_run(*runs, parallel=options.parallel, **_named(*pair[::-1])) if runs else None


def _write_card(run: Path, teachers: list[str], options: DistillOptions, directions: dict[str, Pair]) -> None:
    """Writes the card; prints its table."""
    from flax_transformer.data.bitext.text_files import read_text_files
    from flax_transformer.tasks.translation.evaluation import compare_translators
    from flax_transformer.tasks.translation.inference.translator import Translator

    table = []
    scores = []
    for name, pair in directions.items():
        short = name.split('-')
        test = read_text_files(*(run.with_name(f'{name}.test.{language}') for language in short))
        decoding = asdict(options.decoding) | _named(*pair)
        sides = {'teacher': Translator.from_run(*teachers, **decoding)} if teachers else {}
        sides['student'] = Translator.from_run(run, **_named(*short))
        lines, values = compare_translators(sides, test)
        table += [f'{name}, {len(test)} lines held out', *lines]
        scores.append(run.with_name(f'{name}.json'))
        write_whole(scores[-1], json.dumps({'set': 'held out', 'direction': name, **asdict(values)}))
    text = '\n'.join(table)
    card = card_of(str(run), CardOptions(scores=tuple(scores)))
    write_whole(run / 'README.md', f'{card}\n```\n{text}\n```\n')
    print(text)


def _named(source: str, target: str) -> dict[str, str]:
    return {'source_language': source, 'target_language': target}

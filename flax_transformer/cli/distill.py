"""The command `distill`."""

import hashlib
import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check_range
from flax_transformer.common.files import write_whole
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.shards import RECORD
from flax_transformer.engine.preemption import stop_on_signals
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
from .shards import checksum
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


class Student(NamedTuple):
    """Where a student is made: NAME.py, NAME.data, runs/NAME and runs/NAME-int8."""

    file: Path  # its config

    @property
    def folder(self) -> Path:
        return self.file.with_suffix('.data')

    @property
    def raw(self) -> Path:
        return self.folder / 'raw'

    def held_out(self, direction: str) -> Path:
        """The sources of a direction's test set."""
        return self.raw / f'{direction}.test.{direction.split("-")[0]}'

    @property
    def layers(self) -> Path:
        """A run with those layers of the teacher that the student begins with."""
        return self.raw / 'layers'

    @property
    def trained(self) -> Path:
        return Path('runs', self.file.stem)

    @property
    def made(self) -> Path:
        return Path('runs', f'{self.file.stem}-int8')

    def check(self) -> str:
        """Returns what is there already. Raises UserError if it is not of this student."""
        check_path(self.folder)
        there = ', '.join(str(path) for path in (self.file, self.trained, self.made) if path.exists())
        if there and not (self.folder.exists() and self.file.exists()):
            raise UserError(f'{there} exists; give another name, or remove it')
        runs = self.made.parent
        if runs.exists() and not runs.is_dir():
            raise UserError(f'{runs} is no folder; the student would be in it')
        return there


def main(argv: list[str]) -> None:
    given = _translations(positional(argv)[:-1])
    default = DistillOptions() if given else None
    options = parse('distill', DistillOptions, argv, first='TEACHER ... NAME.py', default=default, most=None)
    *teachers, name = positional(argv)
    student = Student(Path(name))
    if not teachers or student.file.suffix != '.py' or not options.source:
        got = shlex.join(argv)
        raise UserError(f'distill: got {got}, expected TEACHER ... NAME.py --source FILE ...')
    if options.both and (given or not options.reference):
        raise UserError('--both: expected a model, and --reference, the sources of the other direction')
    there = student.check()
    directions = _directions(teachers, options, are_given=bool(given))
    if options.backward:
        _known(options.backward)  # raises if it is no run

    command = f'flax-transformer distill {shlex.join(argv)}'
    with stop_on_signals(exit_at_second=True):
        if not student.file.exists():
            taught = Taught(options.source, options.reference, given)
            _prepare(student, teachers, options, taught, directions, command)
        elif f'{command}\n' not in student.file.read_text('utf-8', 'replace'):
            note(f'{name} is of another command, whose options hold; for those given now remove {there}')
            if any(not student.held_out(pair).exists() for pair in directions):
                raise UserError(f'{name} is for other languages than {" and ".join(directions)}; give another name')
        if not student.made.exists():
            _make(student, teachers, options, directions, are_given=bool(given))
    print_next(
        f'The model is in {student.made}', f'flax-transformer translate {shlex.quote(str(student.made))} < lines'
    )


def _prepare(
    student: Student,
    teachers: list[str],
    options: DistillOptions,
    taught: Taught,
    directions: dict[str, Pair],
    command: str,
) -> None:
    """Translates, filters, and writes the student's config."""
    from flax_transformer.tasks.translation.distillation import start_of, students
    from flax_transformer.tasks.translation.fewer_layers import write_fewer_layers

    start = None if taught.translations else start_of(teachers[0], directions, options.megabytes)
    _translate(teachers, options, taught, student.raw, directions)
    text, candidates = students(student.folder, [*directions], options.megabytes, start)
    (fitted,) = fit(candidates, 60 * options.minutes)
    shutil.rmtree(student.layers, ignore_errors=True)  # a start that was stopped, or other options, left them
    if fitted.start is not None:
        write_fewer_layers(teachers[0], student.layers, replace(fitted.start, model=fitted.config.model))
    write_whole(student.file, config_text(fitted.config, f'{command}\n\n{text}\n', {}))


def _make(
    student: Student, teachers: list[str], options: DistillOptions, directions: dict[str, Pair], *, are_given: bool
) -> None:
    """Trains the student, and writes it in eight bits, with a card."""
    from flax_transformer.engine.runs.averaging import average

    begins_with = student.layers if student.layers.exists() else None
    config = read_config_file(str(student.file), None)
    train.train_as_asked(train.TrainOptions(config, student.trained, begins_with), is_all=False)
    new = student.raw / student.made.name
    shutil.rmtree(new, ignore_errors=True)  # a start that was stopped left it
    run = open_run(student.trained)
    # A teacher may have learned from the lines held out: its layers would be best before they learn anything else.
    choice = {'last': 1} if begins_with else {'best': 1}
    average(run, new, trainer_on_one_device(run.read_config()).shapes.params, **choice, int8=True)
    _write_card(new, teachers, options, directions, are_given=are_given)
    new.rename(student.made)
    remember(student.made)


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
        given = ' '.join(f'{name} {one}' for name, one in zip(('--from', '--to'), pair, strict=True) if one)
        raise UserError(f'{teachers[0]}: got {given or "no languages"}; expected two, by --from and --to')
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
            scores = _scores_file(raw, name, own, backward)
            note(f'{name}: {backward.languages} scores the pairs')
            score_backward(backward, own, scores)
        said = write_pairs(raw / name, own, scores)
        note(said)
        write_whole(raw / f'{name}.counts.txt', f'{said}\n')
        taught = taught.reversed()


def _scores_file(raw: Path, name: str, taught: Taught, backward: 'Translator') -> Path:
    """The file for the scores of these pairs by this model; others are removed."""
    made_by = f'{taught.digest()} {checksum(backward.params)}'
    file = raw / f'{name}.backward-{hashlib.sha256(made_by.encode()).hexdigest()[:12]}'
    for other in {*raw.glob(f'{name}.backward*')} - {file}:
        other.unlink()
    return file


def _backward(teachers: list[str], options: DistillOptions, pair: Pair) -> 'Translator | None':
    """What scores translations back into their sources: the teachers, if they know how, or the run that is given."""
    from flax_transformer.tasks.translation.inference.translator import Translator

    known = [_known(run)[0] for run in teachers]
    runs = teachers if all(not pairs or pair[::-1] in pairs for pairs in known) else []
    if not runs and options.backward:
        runs = [options.backward]
    return Translator.from_run(*runs, parallel=options.parallel, **_named(*pair[::-1])) if runs else None


def _write_card(
    run: Path, teachers: list[str], options: DistillOptions, directions: dict[str, Pair], *, are_given: bool
) -> None:
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
        sides = {} if are_given else {'teacher': Translator.from_run(*teachers, **decoding)}
        sides['student'] = Translator.from_run(run, **_named(*short))
        lines, values = compare_translators(sides, test)
        table += [f'{name}, {len(test)} lines held out; literals are ignored, as by `evaluate`', *lines]
        scores.append(run.with_name(f'{name}.json'))
        write_whole(scores[-1], json.dumps({'set': 'held out', 'direction': name, **asdict(values)}))
    text = '\n'.join(table)
    card = card_of(str(run), CardOptions(scores=tuple(scores)))
    learned = _learned_from(run.parent, teachers, options, directions)
    write_whole(run / 'README.md', f'{card}\n{learned}\n```\n{text}\n```\n')
    print(text)


def _learned_from(raw: Path, teachers: list[str], options: DistillOptions, directions: dict[str, Pair]) -> str:
    """What the card says of the teacher."""
    texts = ', '.join(path.name for path in (*options.source, *options.reference))
    files = [raw / f'{name}.counts.txt' for name in directions]
    counts = '\n'.join(f'- {file.read_text("utf-8").strip()}' for file in files if file.exists())
    return (
        f'## Teacher\n\nIt learned from translations by {", ".join(teachers)} of {texts} (Kim and Rush 2016), so that '
        f'their licenses matter, too. Lines by what became of their translations:\n\n{counts}\n'
    )


def _named(source: str, target: str) -> dict[str, str]:
    return {'source_language': source, 'target_language': target}

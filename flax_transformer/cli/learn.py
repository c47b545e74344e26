"""The command `learn`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import in_use
from flax_transformer.data.lines import read_lines

from .options import note, parse

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.inference.translator import Translator
    from flax_transformer.tasks.translation.learning.lessons import Lessons
    from flax_transformer.tasks.translation.learning.memory import Memory, Pair


@dataclass(frozen=True)
class LearnOptions:
    """Let a model learn from corrected translations, which a memory keeps.

    PAIRS is a file of lines `source<TAB>translation`, or a translation memory (.tmx). `serve RUN --learn MEMORY`
    answers from the memory and with what was learned. Without PAIRS, lists what the memory has.
    """

    pairs: tyro.conf.Positional[Path | None] = None  # pairs to add
    memory: Path = Path('memory')  # a folder: the pairs of each project, and what was learned from them
    project: str = 'local'  # whose pairs; in a server with keys each key's name is a project
    source_language: str | None = None  # of the pairs; None: the run's
    target_language: str | None = None  # likewise
    take_back: tuple[int, ...] = ()  # numbers of pairs from which no later version learns
    forget: tuple[int, ...] = ()  # numbers of pairs to delete from the disk; later pairs get other numbers
    version: int | None = None  # with --output: what was learned at an earlier version
    output: Path | None = None  # a run directory to make with what was learned, or a .tmx file of the pairs
    follow: bool = False  # learn from each project whose name comes in a line of standard input, as a server's helper


def main(argv: list[str]) -> None:
    options = parse('learn', LearnOptions, argv, task='translation', default=LearnOptions())
    from flax_transformer.tasks.translation.inference.translator import Translator
    from flax_transformer.tasks.translation.learning.memory import Memory, memory_file

    if options.follow:
        _follow(_lessons(argv[0], Translator.from_run(argv[0], weights='float32'), options.memory))
        return

    memory = Memory(memory_file(options.memory, options.project))
    if options.output and options.output.suffix == '.tmx':
        _write_tmx(memory, options.output)
        return
    translator = Translator.from_run(argv[0], weights='float32')
    with in_use(options.memory, say=note):
        _change(memory, options, translator)
        _learn(options, argv[0], translator)


def _change(memory: 'Memory', options: LearnOptions, translator: 'Translator') -> None:
    for number in options.take_back:
        memory.take_back(number)
    if options.forget:
        memory.forget(options.forget)
    if options.pairs:
        numbers = memory.add(_read_pairs(options, translator))
        note(f'{sum(map(bool, numbers))} pairs added to {memory.file}, {numbers.count(0)} known')


def _learn(options: LearnOptions, run: str, translator: 'Translator') -> None:
    lessons = _lessons(run, translator, options.memory)
    learned = None
    for learned, version in lessons.lessons(options.project, options.version):
        note(f'version {version}: {len(learned.pairs)} pairs')
        if options.version is None:
            lessons.keep(options.project, learned, version)
    if options.output:
        from flax_transformer.tasks.translation.learning.lessons import write_run

        write_run(run, options.output, lessons.learner.params(learned))
        print(f'The model with what was learned is in {options.output}')
        return
    for place, pair in enumerate(learned.pairs, start=1):
        state = learned.left_out.get(place, 'learned')
        print(f'{pair.number}\t{pair.source}\t{pair.target}\t{state}')


def _lessons(run: str, translator: 'Translator', folder: Path) -> 'Lessons':
    from flax_transformer.engine.runs.run_directory import split_reference
    from flax_transformer.tasks.translation.learning.learner import Learner
    from flax_transformer.tasks.translation.learning.lessons import Lessons
    from flax_transformer.tasks.translation.learning.memory import read_sample

    return Lessons(folder, Learner(translator, read_sample(split_reference(run)[0])))


def _read_pairs(options: LearnOptions, translator: 'Translator') -> list['Pair']:
    from flax_transformer.common.files import read_limited
    from flax_transformer.tasks.translation.inference.directions import direction
    from flax_transformer.tasks.translation.learning.memory import Pair, read_tmx

    source = options.source_language or translator.source_language
    target = options.target_language or translator.target_language
    languages = direction(translator.pairs, source, target)
    if options.pairs.suffix == '.tmx':
        return list(read_tmx(read_limited(options.pairs, most=1 << 28), languages, str(options.pairs)))
    pairs = []
    for number, line in enumerate(read_lines(options.pairs), start=1):
        columns = line.split('\t')
        if len(columns) != 2:
            got = f'{options.pairs}, line {number}: {len(columns)} columns'
            raise UserError(f'{got}; expected a source, a tab and its translation')
        pairs.append(Pair(*columns, *languages))
    return pairs


def _write_tmx(memory: 'Memory', file: Path) -> None:
    from flax_transformer.tasks.translation.learning.memory import write_tmx

    file.write_bytes(write_tmx(memory.pairs()))
    print(f'{len(memory.pairs())} pairs are in {file}')


def _follow(lessons: 'Lessons') -> None:
    """Learns from projects as their names come in, and prints each that has a new version."""
    for line in sys.stdin:
        project = line.rstrip('\n')
        for learned, version in lessons.lessons(project):
            lessons.keep(project, learned, version)
            print(project, flush=True)

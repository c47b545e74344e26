"""Training and scoring the seeds of an experiment, by the commands that a user would type."""

import contextlib
import functools
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.reproduce.corpora import write_lines, write_subset, write_with_translations
from benchmarks.reproduce.experiments import Experiment, Measure, Part
from benchmarks.reproduce.log import Log
from benchmarks.reproduce.process import Ended, call, hardware
from benchmarks.reproduce.settings import Settings, settings_of
from flax_transformer.cli.options import parse
from flax_transformer.cli.train import TrainOptions, train_options
from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import EXIT_CODE, UserError
from flax_transformer.common.fields import marked
from flax_transformer.common.files import in_use, lock, sha256_of
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.runs.finished import finished
from flax_transformer.engine.runs.run_directory import environment
from flax_transformer.tasks.find import task_module

COMMAND = (sys.executable, '-m', 'flax_transformer.cli')
INTERRUPTED = (EXIT_CODE, 130, -2, -15)


class Stopped(Exception):
    """A command was interrupted: it has saved what it needs to continue."""


class Runs:
    """The runs of an experiment, one for each seed, in one folder with a log of all that was done."""

    def __init__(self, experiment: Experiment, top: Path, *, run: Callable[..., Ended] = call) -> None:
        self.experiment = experiment
        self.folder = top / experiment.name
        self._top = top
        self.log = Log(self.folder / 'log.jsonl')
        self._call = run

    def run(self, seed: int) -> Path:
        return self.folder / f'seed-{seed}'

    def fields(self, seed: int) -> tuple[str, ...]:
        """The options of `train` for a seed."""
        fields = self.experiment.fields
        if self._corpus:
            fields = (*fields, '--data.train', str(self.folder.absolute() / 'train.{lang}'))
        return (*fields, '--seed', str(seed), '--workdir', str(self.run(seed)))

    def config(self, seed: int) -> Any:
        """The config that a seed is trained with."""
        return replace(self._config_of_seed_0, seed=seed)

    @functools.cached_property
    def _config_of_seed_0(self) -> Any:
        return self._config(self.fields(0))  # parsing takes a while

    def _config(self, fields: Sequence[str]) -> Any:
        argv = [self.experiment.config, *fields]
        default = lambda name: train_options(name, argv)
        return parse('train', TrainOptions, argv, first='CONFIG', description='', default=default).config

    @property
    def data(self) -> DataConfig:
        """The part of the config that names its sets."""
        return self.config(0).data

    @functools.cached_property
    def settings(self) -> Settings:
        """What its log says of the config."""
        return settings_of(self.config(0), self._corpus)

    @functools.cached_property
    def _corpus(self) -> dict[str, Any]:
        """What its training corpus is, if not the config's."""
        if self.experiment.pairs is not None:
            return {'pairs': self.experiment.pairs}
        teachers = [
            {'name': runs.experiment.name, 'seeds': seeds, 'settings': runs.settings.fields}
            for runs, seeds in self.teachers
        ]
        return {'teachers': teachers} if teachers else {}

    @functools.cached_property
    def teachers(self) -> list[tuple['Runs', tuple[int, ...]]]:
        """The runs of each teacher, and which seeds of them teach."""
        found = self.experiment.teachers
        return [(Runs(each.experiment, self._top, run=self._call), each.seeds) for each in found]

    def is_finished(self, seed: int) -> bool:
        """Whether the run is there, of this config, whole and with nothing left to train."""
        config = self.config(seed)
        run = task_module(config.task, 'run').Run(self.run(seed))
        if not run.exists() or finished(run, config.training) is None:
            return False
        there = run.read_config()
        return there.seed == seed and settings_of(there, self._corpus) == self.settings and self._is_of_corpus(seed)

    def _is_of_corpus(self, seed: int) -> bool:
        """Whether the log says that a seed was trained on this corpus: its config names a path alone."""
        begun = [event for event in self.log.read() if event['event'] == 'train' and event['seed'] == seed]
        made_of = lambda fields: [fields.get(name) for name in ('pairs', 'teachers')]
        return not begun or made_of(begun[-1]['settings']) == made_of(self.settings.fields)

    def train(self, seed: int) -> bool:
        """Trains a seed, or goes on with it; whether it is finished.

        Its teachers come first. Raises Stopped if it was interrupted, and UserError if another process is training it,
        if it is a run of another config, or if a teacher failed.
        """
        if self.is_finished(seed):
            return True
        with in_use(self.run(seed), say=_say):
            self._check_config(seed)
        self._write_corpus()
        command = [*COMMAND, 'train', self.experiment.config, *self.fields(seed)]
        facts = {'seed': seed, 'settings': self.settings.fields}
        self.log.add('train', **facts, command=_shown(command), commit=environment('')['commit'])
        ended = self._call(command, stdout=2)  # our own standard output is for rows
        facts |= {'corpus': self._corpus_files(seed), 'hardware': hardware(_devices(self.run(seed)))}
        self.log.add('trained', **facts, **ended._asdict())
        if ended.exit_code in INTERRUPTED:
            raise Stopped
        return ended.exit_code == 0

    def _corpus_files(self, seed: int) -> dict[str, str]:
        """The SHA-256 of each file of the training corpus and the validation set, as they were when the run began."""
        try:
            listed = task_module(self.config(seed).task, 'run').Run(self.run(seed)).read_data_files()
        except UserError:
            return {}  # damaged, as training has said
        return {Path(file['path']).name: file['sha256'] for files in listed.values() for file in files}

    def _write_corpus(self) -> None:
        """Writes the training corpus, unless it is the config's; trains its teachers."""
        data = self._config(self.experiment.fields).data
        if self.experiment.pairs is not None:
            with self._alone():
                write_subset(data, self.experiment.pairs, self.folder)
        teachers = []
        for runs, seeds in self.teachers:
            if not all([runs.train(seed) for seed in seeds]):
                raise UserError(f'its teacher {runs.experiment.name} failed')
            teachers.append((runs.data, functools.partial(runs.translate, seeds)))
        if teachers:
            with self._alone():
                write_with_translations(data, teachers, self.folder)

    def translate(self, seeds: Sequence[int], lines: Sequence[str]) -> list[str]:
        """The lines as a seed translates them, or an ensemble of several, kept in the folder.

        Raises Stopped if it was interrupted, and UserError if it failed.
        """
        runs = [self.run(seed) for seed in seeds]
        how = json.dumps(self.settings.fields, sort_keys=True)  # checkpoints do not say how to search
        what = hashlib.sha256('\n'.join([how, *map(digest, runs), *lines]).encode()).hexdigest()[:12]
        source, output = (self.folder / f'lines-{what}.{kind}' for kind in ('source', 'translated'))
        with self._alone():
            write_lines(lines, source)
            if not output.exists() or len(_lines(output)) < len(lines):
                self._translate(seeds, source, output)
        if len(found := _lines(output)) != len(lines):
            raise UserError(f'{output}: got {len(found):,} lines for the {len(lines):,} of {source}; delete it')
        return found

    def _translate(self, seeds: Sequence[int], source: Path, output: Path) -> None:
        # Killed, it has whole lines in `output`, to which --resume appends.
        files = ['--input', str(source), '--output', str(output), '--resume']
        command = [*COMMAND, 'translate', *(str(self.run(seed)) for seed in seeds), *files]
        ended = self._call(command, stdout=2)
        self.log.add('translated', seeds=list(seeds), command=_shown(command), **ended._asdict())
        if ended.exit_code in INTERRUPTED:
            raise Stopped
        if ended.exit_code:
            raise UserError(f'{self.experiment.name} did not translate {source} (exit code {ended.exit_code})')

    def _check_config(self, seed: int) -> None:
        """Raises UserError for a run that is not as a new one would be, even if `train` would resume it."""
        config = self.config(seed)
        run = task_module(config.task, 'run').Run(self.run(seed))
        if not run.exists():
            return
        may_differ = self.settings.unused_in_training | marked(config, 'cosmetic')
        changed = changed_fields(run.read_config(), config).items()
        refused = [f'  {name}: {old!r} there, {new!r} here' for name, (old, new) in changed if name not in may_differ]
        if not refused and not self._is_of_corpus(seed):
            refused = ['  trained on another subset, or by other teachers: see log.jsonl']
        if refused:
            lines = '\n'.join(refused)
            raise UserError(
                f'{run.path} is a run of another config:\n{lines}\nMove {self.folder} away, with its log, or give '
                'another --runs'
            )

    def score(self, seeds: Sequence[int], measure: Measure, part: Part) -> bool:
        """Scores a seed, or an ensemble of several, on a set, unless the same runs have been; whether it worked.

        Waits while another process scores runs of this experiment. Raises Stopped if it was interrupted.
        """
        with self._alone():
            what = {'seeds': list(seeds), 'set': part, 'options': list(self.options(measure)[part])}
            what |= {'settings': self.settings.fields, 'digests': [digest(self.run(seed)) for seed in seeds]}
            if any(event['event'] == 'score' and what.items() <= event.items() for event in self.log.read()):
                return True
            return self._score(what, measure)

    def _score(self, what: dict[str, Any], measure: Measure) -> bool:
        output = self.translations(what['seeds'], measure, what['set'])
        command = [*COMMAND, 'evaluate', *(str(self.run(seed)) for seed in what['seeds']), *what['options']]
        self.log.add('scoring', **what, command=_shown(command), commit=environment('')['commit'])
        with tempfile.TemporaryFile() as printed:
            ended = self._call([*command, '--json', '--output', str(output)], stdout=printed)
            printed.seek(0)
            answer = printed.read()
        facts = what | ended._asdict() | {'commit': environment('')['commit']}
        if ended.exit_code:
            self.log.add('score failed', **facts)
            if ended.exit_code in INTERRUPTED:
                raise Stopped
            return False
        self.log.add('score', **facts, sha256=sha256_of(output), scores=json.loads(answer))
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits, and says so, until no other process is in this block."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / 'lock').open('w') as opened:
            with contextlib.suppress(OSError):  # a file system without locks
                try:
                    lock(opened.fileno())
                except BlockingIOError:
                    _say(f'waiting for the process that translates or scores in {self.folder}')
                    lock(opened.fileno(), is_patient=True)
            yield

    def translations(self, seeds: Sequence[int], measure: Measure, part: Part) -> Path:
        """The file with the translations of a set."""
        name = '-'.join(filter(None, ('_'.join(map(str, seeds)), measure.label, part)))
        return self.folder / f'translations-{name}.txt'

    def options(self, measure: Measure) -> dict[Part, tuple[str, ...]]:
        """The options of `evaluate` for each set that the measure has: the set and the measure's own.

        Raises UserError unless there is one validation set.
        """
        sets: dict[Part, str] = {'validation': measure.validation or self._validation()}
        if measure.has_test and (measure.test or self.data.has_test):
            sets['test'] = measure.test or self.data.test
        return {part: ('--data.test', name, *measure.options) for part, name in sets.items()}

    def _validation(self) -> str:
        found = [corpus.validation for corpus in self.data.corpora if corpus.has_validation]
        if self.data.mixture or not found:
            got = f'{len(found)} in data.mixture' if self.data.mixture else 'none'
            raise UserError(f'{self.experiment.config}: got {got} as validation set, expected one in data.validation')
        return found[0]


def digest(run: Path) -> str:
    """A sum over a run's checkpoints."""
    found = hashlib.sha256()
    for manifest in sorted((run / 'checkpoints').glob('*/manifest.json')):
        found.update(manifest.read_bytes())
    return found.hexdigest()


def _lines(file: Path) -> list[str]:
    """Only a line feed ends a line."""
    return file.read_text(encoding='utf-8').split('\n')[:-1]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _devices(run: Path) -> str:
    try:
        return json.loads((run / 'environment.json').read_text(encoding='utf-8'))[-1]['devices']
    except (OSError, ValueError, LookupError):
        return ''  # it failed before its first step


def _shown(command: Sequence[str]) -> list[str]:
    """The command as a user has it, in this folder."""
    here = f'{Path.cwd()}/'
    return ['flax-transformer', *(part.removeprefix(here) for part in command[len(COMMAND) :])]

"""Training and scoring the seeds of an experiment, by the commands that a user would type."""

import functools
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks.reproduce.log import INTERRUPTED, add_to_log, read_logs, trains_alike
from benchmarks.reproduce.tables import Experiment, Measure, Part
from flax_transformer.cli.options import parse
from flax_transformer.cli.train import TrainOptions, train_options
from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import marked
from flax_transformer.common.files import sha256_of, write_whole
from flax_transformer.config import Config
from flax_transformer.data.bitext.sources import read_corpus
from flax_transformer.engine.runs.run_directory import environment

TEACHER_SEED = 1


def call(command: Sequence[str], *, stdout: IO[bytes] | int | None = None) -> dict[str, float]:
    """Runs the command and forwards SIGTERM and Ctrl-C to it; its exit code, and the time it took."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=stdout)
    # Always SIGTERM: a terminal sends Ctrl-C to the command as well, and a second one would cut its last save.
    pass_on = lambda *_: os.kill(process.pid, signal.SIGTERM)
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_seconds, seconds = usage.ru_utime + usage.ru_stime, time.monotonic() - began
    return {'exit_code': process.returncode, 'cpu_seconds': round(cpu_seconds, 1), 'seconds': round(seconds, 1)}


def hardware(run: Path) -> str:
    """The machine in words, with the widest vectors (a run's last bits depend on them) and devices other than CPUs."""
    there = os.cpu_count()
    ours = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else there
    text = file.read_text() if (file := Path('/proc/cpuinfo')).exists() else ''
    facts = dict(re.findall(r'^(model name|flags)\s*:\s*(.*)$', text, re.MULTILINE))
    vectors = [flag for flag in ('avx512f', 'avx2') if flag in facts.get('flags', '').split()][:1]
    cores = f'{there} cores' if ours == there else f'{ours} of {there} cores'
    notes = run / 'environment.json'  # not there if it failed before its first step
    devices = json.loads(notes.read_text(encoding='utf-8'))[-1]['devices'] if notes.exists() else ''
    accelerators = [devices] if devices and ' cpu ' not in devices else []
    return ', '.join([*accelerators, cores, facts.get('model name', platform.machine()), *vectors])


class Runs:
    """The runs of an experiment, one for each seed, in one folder with a log of all that was done.

    Its methods raise KeyboardInterrupt if a command was interrupted; it has saved what it needs to continue.
    """

    def __init__(self, experiment: Experiment, top: Path, *, run: Callable[..., dict[str, float]] = call) -> None:
        self.experiment = experiment
        self.folder = top / experiment.name
        self.log = self.folder / 'log.jsonl'
        self.teachers = [Runs(teacher, top, run=run) for teacher in experiment.teachers]
        self._call = run

    def run(self, seed: int) -> Path:
        return self.folder / f'seed-{seed}'

    @functools.cached_property
    def config(self) -> Config:
        """The config of all seeds, with the corpus that theirs is derived from."""
        argv = [self.experiment.config, *self.experiment.fields.split()]
        default = lambda name: train_options(name, argv)
        return parse('train', TrainOptions, argv, first='CONFIG', default=default).config

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """What decides how all seeds learn and translate: the fields that are not the defaults, as JSON values."""
        derived: dict[str, Any] = {} if self.experiment.pairs is None else {'pairs': self.experiment.pairs}
        if self.teachers:
            about = lambda runs: {'name': runs.experiment.name, 'seeds': [TEACHER_SEED], 'settings': runs.settings}
            derived = {'teachers': [about(teacher) for teacher in self.teachers]}
        changed = changed_fields(type(self.config)(), self.config)
        left_out = marked(self.config, 'cosmetic') | {'seed'} | ({'data.train'} if derived else set())
        fields = {name: new for name, (_, new) in changed.items() if name not in left_out}
        return json.loads(json.dumps(fields | derived))

    def train(self, seed: int) -> bool:
        """Trains a seed, or goes on with it, unless the log says that it is finished; whether it is.

        Its teachers come first. Raises UserError if it is a run of another config, or if a teacher failed.
        """
        run, facts = self.run(seed), {'seed': seed, 'settings': self.settings}
        begun = [each for each in read_logs(self.log) if each['event'] in ('train', 'trained') and each['seed'] == seed]
        if begun and run.exists():
            if not trains_alike(begun[-1], self.settings):
                what = 'is a run of another config, or of another training text: see log.jsonl'
                raise UserError(f'{run} {what}. Move {self.folder} away, with its log, or give another --runs')
            if begun[-1].get('exit_code') == 0:
                return True
        fields = (*self.experiment.fields.split(), *self._derived_corpus(), '--seed', seed, '--workdir', run)
        ended = self._do('train', facts, 'train', self.experiment.config, *fields)
        add_to_log(self.log, 'trained', **facts, hardware=hardware(run), **ended)
        return _worked(ended)

    def _do(self, event: str, facts: dict[str, Any], *arguments: object, stdout: Any = 2) -> dict[str, float]:
        """Notes the start of a command and runs it; our own standard output is for rows."""
        words = [str(each) for each in arguments]
        add_to_log(self.log, event, **facts, command=['flax-transformer', *words], commit=environment('')['commit'])
        return self._call([sys.executable, '-m', 'flax_transformer.cli', *words], stdout=stdout)

    def _derived_corpus(self) -> tuple[str, ...]:
        """Writes the training text, unless it is the config's; the option that names it.

        Subsets are nested: the first pairs of one shuffled order. Teachers add one copy each, with one side replaced by
        their translation (Nguyen et al. 2020, "Data Diversification", algorithm 1).
        """
        if self.experiment.pairs is None and not self.teachers:
            return ()
        data = self.config.data
        corpus = read_corpus(data.train, data)
        sides = list(corpus.sources), list(corpus.targets)
        if self.experiment.pairs is not None:
            chosen = np.random.default_rng(0).permutation(len(corpus))[: self.experiment.pairs]
            sides = tuple([lines[i] for i in chosen] for lines in sides)
        for teacher in self.teachers:
            if not teacher.train(TEACHER_SEED):
                raise UserError(f'its teacher {teacher.experiment.name} failed')
            if teacher.config.data.source_language == data.source_language:
                copy = corpus.sources, self._translated(corpus.sources, teacher)
            else:
                copy = self._translated(corpus.targets, teacher), corpus.targets
            sides = tuple([*lines, *added] for lines, added in zip(sides, copy, strict=True))
        for language, lines in zip((data.source_language, data.target_language), sides, strict=True):
            _write_lines(lines, self.folder / f'train.{language}')
        return '--data.train', str(self.folder.absolute() / 'train.{lang}')

    def _translated(self, lines: Sequence[str], teacher: 'Runs') -> list[str]:
        run = teacher.run(TEACHER_SEED)
        source = self.folder / f'{teacher.folder.name}-{digest(run)[:12]}.source'
        output = source.with_suffix('.translated')
        _write_lines(lines, source)
        # Killed, it has whole lines in `output`, to which --resume appends.
        if not _worked(self._do('translate', {}, 'translate', run, '--input', source, '--output', output, '--resume')):
            raise UserError(f'{teacher.experiment.name} did not translate {source}')
        return output.read_text(encoding='utf-8').split('\n')[:-1]  # only a line feed ends a line

    def score(self, seeds: Sequence[int], measure: Measure, part: Part) -> bool:
        """Scores a seed, or several together, on a set, unless the same runs have been; whether it worked."""
        members, options = [self.run(seed) for seed in seeds], self.options(measure)[part]
        what = {'seeds': list(seeds), 'set': part, 'options': options, 'settings': self.settings}
        what |= {'digests': [digest(run) for run in members]}
        if any(event['event'] == 'score' and what.items() <= event.items() for event in read_logs(self.log)):
            return True
        name = '-'.join(filter(None, ('_'.join(map(str, seeds)), measure.label, part)))
        output = self.folder / f'translations-{name}.txt'
        with tempfile.TemporaryFile() as printed:
            arguments = ('evaluate', *members, *options, '--json', '--output', output)
            ended = self._do('scoring', what, *arguments, stdout=printed)
            printed.seek(0)
            facts = what | ended | {'commit': environment('')['commit']}
            if ended['exit_code'] == 0:
                add_to_log(self.log, 'score', **facts, sha256=sha256_of(output), scores=json.load(printed))
        return _worked(ended)

    def options(self, measure: Measure) -> dict[Part, list[str]]:
        """The options of `evaluate` for each set that the measure has: the set and the measure's own."""
        data = self.config.data
        sets: dict[Part, str] = {'validation': measure.validation or data.validation}
        sets |= {'test': measure.test or data.test} if measure.has_test else {}
        return {part: ['--data.test', name, *measure.options.split()] for part, name in sets.items()}


def _worked(ended: Mapping[str, float]) -> bool:
    if ended['exit_code'] in INTERRUPTED:
        raise KeyboardInterrupt
    return ended['exit_code'] == 0


def digest(run: Path) -> str:
    """A sum over a run's checkpoints."""
    found = hashlib.sha256()
    for manifest in sorted((run / 'checkpoints').glob('*/manifest.json')):
        found.update(manifest.read_bytes())
    return found.hexdigest()


def _write_lines(lines: Sequence[str], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, ''.join(f'{line}\n' for line in lines))

"""Training and scoring the seeds of an experiment, by the commands that a user would type."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reproduce.experiments import Experiment, Measure, Part
from benchmarks.reproduce.log import Log
from benchmarks.reproduce.process import Ended, call, hardware
from benchmarks.reproduce.subsets import write_subset
from flax_transformer.cli.options import parse
from flax_transformer.cli.train import TrainOptions, train_options
from flax_transformer.common.config_json import flat_fields
from flax_transformer.common.fields import marked
from flax_transformer.common.files import sha256_of
from flax_transformer.common.locks import in_use
from flax_transformer.engine.preemption import EXIT_CODE
from flax_transformer.engine.runs.environment import environment
from flax_transformer.engine.runs.finished import finished
from flax_transformer.tasks.find import read_run_config, task_module

COMMAND = (sys.executable, '-m', 'flax_transformer.cli')
INTERRUPTED = (EXIT_CODE, 130, -2, -15)


class Stopped(Exception):
    """A command was interrupted: it has saved what it needs to continue."""


class Seeds:
    """The runs of an experiment, one for each seed, in one folder with a log of all that was done."""

    def __init__(self, experiment: Experiment, top: Path, *, run: Callable[..., Ended] = call) -> None:
        self.experiment = experiment
        self.folder = top / experiment.name
        self.log = Log(self.folder / 'log.jsonl')
        self._call = run

    def run(self, seed: int) -> Path:
        return self.folder / f'seed-{seed}'

    def fields(self, seed: int) -> tuple[str, ...]:
        """The options of `train` for a seed."""
        fields, pairs = self.experiment.fields, self.experiment.pairs
        if pairs is not None:
            fields = (*fields, '--data.train', str(self.folder.absolute() / 'train.{lang}'))
        return (*fields, '--seed', str(seed), '--workdir', str(self.run(seed)))

    def config(self, seed: int) -> Any:
        """The config that a seed is trained with."""
        argv = [self.experiment.config, *self.fields(seed)]
        default = lambda name: train_options(name, argv)
        return parse('train', TrainOptions, argv, first='CONFIG', description='', default=default).config

    def is_finished(self, seed: int) -> bool:
        """Whether the run is there, of this config, whole and with nothing left to train."""
        config = self.config(seed)
        run = task_module(config.task, 'run').Run(self.run(seed))
        return run.exists() and run.read_config() == config and finished(run, config.training) is not None

    def train(self, seed: int) -> bool:
        """Trains a seed, or goes on with it; whether it is finished.

        Raises Stopped if it was interrupted, and UserError if another process is training it.
        """
        if self.is_finished(seed):
            return True
        with in_use(self.run(seed), say=print):
            pass
        if self.experiment.pairs is not None:
            base = train_options(self.experiment.config, []).config.data
            write_subset(base, self.experiment.pairs, self.folder)
        command = [*COMMAND, 'train', self.experiment.config, *self.fields(seed)]
        self.log.add('train', seed=seed, command=_shown(command), commit=environment('')['commit'])
        ended = self._call(command, stdout=2)  # our own standard output is for rows
        self.log.add('trained', seed=seed, hardware=hardware(_devices(self.run(seed))), **ended._asdict())
        if ended.exit_code in INTERRUPTED:
            raise Stopped
        return ended.exit_code == 0

    def score(self, seeds: Sequence[int], measure: Measure, part: Part) -> bool:
        """Scores a seed, or an ensemble of several, on a set, unless the same runs have been; whether it worked.

        Raises Stopped if it was interrupted.
        """
        options = list(self.options(measure, part))
        key = {'seeds': list(seeds), 'set': part, 'options': options}
        key |= {'digests': [digest(self.run(seed)) for seed in seeds]}
        if any(event['event'] == 'score' and key.items() <= event.items() for event in self.log.read()):
            return True
        name = '-'.join(filter(None, ('_'.join(map(str, seeds)), measure.label, part)))
        output = self.folder / f'translations-{name}.txt'
        command = [*COMMAND, 'evaluate', *(str(self.run(seed)) for seed in seeds), *options]
        with tempfile.TemporaryFile() as printed:
            ended = self._call([*command, '--json', '--output', str(output)], stdout=printed)
            printed.seek(0)
            answer = printed.read()
        facts = key | ended._asdict() | {'command': _shown(command), 'commit': environment('')['commit']}
        if ended.exit_code:
            self.log.add('score failed', **facts)
            if ended.exit_code in INTERRUPTED:
                raise Stopped
            return False
        self.log.add('score', **facts, sha256=sha256_of(output), scores=json.loads(answer))
        return True

    def options(self, measure: Measure, part: Part) -> tuple[str, ...]:
        """The options of `evaluate`: the set and the measure's own."""
        data = self.config(0).data
        named, default = (measure.validation, data.validation) if part == 'validation' else (measure.test, data.test)
        return ('--data.test', named or default, *measure.options)


def digest(run: Path) -> str:
    """A sum over what decides how a run translates and what it is scored on: its checkpoints and its config."""
    config = read_run_config(str(run))
    cosmetic = marked(config, 'cosmetic')
    fields = {name: value for name, value in flat_fields(config).items() if name not in cosmetic}
    found = hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode())
    for manifest in sorted((run / 'checkpoints').glob('*/manifest.json')):
        found.update(manifest.read_bytes())
    return found.hexdigest()


def _devices(run: Path) -> str:
    try:
        return json.loads((run / 'environment.json').read_text(encoding='utf-8'))[-1]['devices']
    except (OSError, ValueError, LookupError):
        return ''  # it failed before its first step


def _shown(command: Sequence[str]) -> list[str]:
    """The command as a user has it."""
    return ['flax-transformer', *command[len(COMMAND) :]]

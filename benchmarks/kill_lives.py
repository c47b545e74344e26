"""A training process that says where it is, so that benchmarks/kill.py can end it there."""

import functools
import mmap
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orbax.checkpoint as ocp
from absl import logging

from flax_transformer.config import Config
from flax_transformer.engine.devices.devices import prepare_devices
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.preemption import EXIT_CODE, Interrupted
from flax_transformer.engine.runs import checkpoints as checkpoints_module
from flax_transformer.tasks.translation import train as train_module
from flax_transformer.tasks.translation.validation import Validation

# What a life may be killed in, and the seconds after its begin within which it is.
PHASES = {
    'starting': 0.3,  # the shapes of the state, the optimizer
    'preparing': 0.2,  # the tokenizer, the data cache, the config
    'compiling': 1.0,  # and restoring
    'stepping': 0.1,
    'evaluating': 0.05,
    'saving': 0.06,
    'deleting': 0.003,  # old checkpoints
    'replacing': 0.04,  # a checkpoint that is saved again with its scores
    'ending': 0.15,  # the last save
}
_NUMBER = {name: number for number, name in enumerate(PHASES)}


class Life(NamedTuple):
    """A process that trains, a pipe that gives the number of each phase that begins, and which it is in."""

    pid: int
    pipe: int
    inside: mmap.mmap  # a byte for each phase: 1 while in it

    def phase(self, run: Path) -> str:
        """The phase that it is in; of several, the rarest."""
        begun = {name for name, number in _NUMBER.items() if self.inside[number]}
        if (run / 'replaced_checkpoint').exists():
            begun.add('replacing')
        if any((run / 'checkpoints').glob('*.orbax-checkpoint-tmp*')):
            begun.add('saving')
        order = ('deleting', 'replacing', 'ending', 'saving', 'evaluating', 'preparing', 'compiling', 'stepping')
        return next((name for name in order if name in begun), 'starting')


def start(config: Config, run: Path, log: Path) -> Life:
    """A fork of this process that trains; it has imported everything, and must not have touched a device."""
    read, write = os.pipe()
    inside = mmap.mmap(-1, len(PHASES))
    pid = os.fork()
    if pid:
        os.close(write)
        return Life(pid, read, inside)
    os.close(read)
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(opened, stream)
    code = 1
    try:
        code = _train(config, run, _Marks(write, inside))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _train(config: Config, run: Path, marks: '_Marks') -> int:
    """The exit code of training, as the command has it."""
    for number in (signal.SIGTERM, signal.SIGINT):  # before training has its handlers
        signal.signal(number, lambda *_: os._exit(EXIT_CODE))
    prepare_devices(config.parallel.num_devices)
    logging.set_verbosity(logging.FATAL)
    marks.place(config.training.steps)
    try:
        train_module.train(config, run, exit_at_second=True)
    except Interrupted as stopped:
        print(stopped, file=sys.stderr)
        return EXIT_CODE
    except KeyboardInterrupt:
        return 130
    return 0


class _Marks:
    """Notes when phases begin and end."""

    def __init__(self, pipe: int, inside: mmap.mmap) -> None:
        self._pipe, self._inside = pipe, inside

    def begin(self, phase: str) -> None:
        self._inside[_NUMBER[phase]] = phase not in ('saving', 'replacing')  # these are seen on disk
        os.write(self._pipe, bytes([_NUMBER[phase]]))

    def end(self, phase: str) -> None:
        self._inside[_NUMBER[phase]] = 0

    def place(self, steps: int) -> None:
        """Wraps the functions in which phases begin and end."""
        self._around(train_module, 'make_trainer', 'starting')
        self._around(train_module, 'prepare_run', 'preparing')
        self._around(Validation, '__call__', 'evaluating')
        self._around(shutil, 'rmtree', 'deleting', lambda path, *_, **__: 'checkpoint' in str(path))
        self._before(train_module.engine, 'open_checkpoints', lambda *_: self.begin('compiling'))
        self._before(ocp.CheckpointManager, 'save', lambda *_, **__: self.begin('saving'))
        self._before(checkpoints_module, 'set_aside', lambda *_: self.begin('replacing'))

        def advance(_: Reporter, step: int) -> None:
            self.end('compiling')
            self.begin('stepping')
            if step == steps:
                self.begin('ending')

        self._before(Reporter, 'advance', advance)

    def _around(self, owner: Any, name: str, phase: str, where: Callable[..., bool] = lambda *_, **__: True) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def marked(*args: Any, **rest: Any) -> Any:
            if not where(*args, **rest):
                return function(*args, **rest)
            self.begin(phase)
            try:
                return function(*args, **rest)
            finally:
                self.end(phase)

        setattr(owner, name, marked)

    def _before(self, owner: Any, name: str, note: Callable[..., None]) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def noted(*args: Any, **rest: Any) -> Any:
            note(*args, **rest)
            return function(*args, **rest)

        setattr(owner, name, noted)

"""What the users of a server correct: a memory of each, and what the model has learned from it."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.common.trees import named_leaves
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.ops.decoding_weights import is_exact, replaced
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.learning.learner import digest_of
from flax_transformer.tasks.translation.learning.lessons import read_kept
from flax_transformer.tasks.translation.learning.memory import Memory, Pair, memory_file, read_sample

from .directions import Direction, Directions

LOCAL = 'local'  # the project of a server without keys
_LOW_PRIORITY = 19
_PAUSE = 10.0  # seconds until a helper that has ended is started again


class Teaching:
    """The memories of projects, and what a helper, a process of low priority, learns from them meanwhile."""

    def __init__(self, folder: Path, model: Directions) -> None:
        """Raises UserError for a model that cannot learn: one without a sample of its training."""
        self.folder = folder
        self._memories: dict[str, Memory] = {}
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._digest = ''
        self.use(model, self.digest_of(model))

    @staticmethod
    def digest_of(model: Directions) -> str:
        """Raises UserError for a model that cannot learn."""
        return digest_of(model.translator.params, read_sample(split_reference(model.name)[0]))

    def use(self, model: Directions, digest: str) -> None:
        """Goes on with another model, which learns the memories anew if its digest is another."""
        is_new = digest != self._digest
        with self._lock:
            self._model = model
            self._digest = digest
            self._params = model.translator.params
            self._learned: dict[str, tuple[int, Translator]] = {}  # by project: the version, and the model that has it
            self._directions: dict[tuple[str, int, Direction], Direction] = {}
        for file in self.folder.glob('*.jsonl'):
            self._swap(unquote(file.stem))
        if self._helper and is_new:
            self._helper.kill()  # another starts, with this model

    def memory(self, project: str) -> Memory:
        with self._lock:
            if project not in self._memories:
                self._memories[project] = Memory(memory_file(self.folder, project or LOCAL))
            return self._memories[project]

    def add(self, project: str, pairs: Sequence[Pair]) -> list[int]:
        """Adds pairs, which are learned soon. Raises UserError for what cannot be a translation."""
        memory = self.memory(project)
        with self._lock:
            numbers = memory.add(pairs)
        self._ask(project)
        return numbers

    def take_back(self, project: str, number: int) -> None:
        """Raises UserError if there is no such pair."""
        memory = self.memory(project)
        with self._lock:
            memory.take_back(number)
        self._ask(project)

    def version(self, project: str) -> int:
        """The version of the memory that was learned; 0: none."""
        return self._learned.get(project or LOCAL, (0, None))[0]

    def direction(self, project: str, direction: Direction) -> Direction:
        """The direction with what was learned from a project."""
        version, learned = self._learned.get(project or LOCAL, (0, None))
        if learned is None or direction.model != self._model.name:
            return direction
        with self._lock:
            key = project, version, direction
            if key not in self._directions:
                best, every = (
                    learned.with_decoding(translator.decoding) for translator in (direction.best, direction.every)
                )
                self._directions[key] = direction._replace(best=best, every=every, version=version)
            return self._directions[key]

    def start(self) -> None:
        """Starts the helper, which looks at every project."""
        self._thread = threading.Thread(target=self._keep_helping, name='teaching', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._helper:
            self._helper.kill()  # what it had learned is whole on the disk
        if self._thread:
            self._thread.join()

    def _ask(self, project: str) -> None:
        # A helper that has ended looks at every project when it starts again.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            self._helper.stdin.write(f'{project or LOCAL}\n')
            self._helper.stdin.flush()

    def _keep_helping(self) -> None:
        while not self._stopping.is_set():
            digest = self._digest
            code = self._help()
            if self._digest == digest and not self._stopping.is_set():
                say(f'flax-transformer: learning ended with {code}; it starts again', is_error=True)
                self._stopping.wait(_PAUSE)

    def _help(self) -> int:
        """Swaps in what the helper has learned, until it ends; returns its exit code."""
        command = ['-m', 'flax_transformer.cli', 'learn', self._model.name, '--memory', str(self.folder), '--follow']
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True, 'encoding': 'utf-8'}
        with subprocess.Popen([sys.executable, *command], **pipes) as helper:
            self._helper = helper
            if hasattr(os, 'setpriority'):  # not on Windows
                os.setpriority(os.PRIO_PROCESS, helper.pid, _LOW_PRIORITY)
            for file in self.folder.glob('*.jsonl'):
                self._ask(unquote(file.stem))
            for line in helper.stdout:
                try:
                    self._swap(line.rstrip('\n'))
                except (UserError, OSError) as error:
                    say(f'flax-transformer: {error}', is_error=True)
        return helper.returncode

    def _swap(self, project: str) -> None:
        """Translates with the newest version of a project from now on."""
        head, changed = read_kept(memory_file(self.folder, project), self._digest)
        if not head:
            return
        version = head['version']
        # Arrays that are placed otherwise would have the programs compiled again.
        places = {name: leaf.sharding for name, leaf in named_leaves(self._params)}
        changed = {name: jax.device_put(leaf, places[name]) for name, leaf in changed.items()}
        translator = self._model.translator
        learned = translator.with_params(replaced(self._params, changed))
        if is_exact(translator.weights):
            learned.weights = replaced(translator.weights, changed)  # shares what has not changed
        learned.version = version
        jax.block_until_ready(learned.weights)  # now, not in a request
        with self._lock:
            self._learned[project] = version, learned
            self._directions = {key: value for key, value in self._directions.items() if key[0] != project}

"""A folder of memories, one of each project, and what a model has learned from each."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, open_regular, written_whole
from flax_transformer.common.json_text import parse_json
from flax_transformer.engine.runs.averaging import write_copy
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.translation.run import Run

from .learner import Learned, Learner
from .memory import Memory, Pair, learned_file, memory_file


class Lessons:
    """What a learner has learned from the memories in a folder."""

    def __init__(self, folder: Path, learner: Learner) -> None:
        self.folder = folder
        self.learner = learner
        self._newest: dict[str, Learned] = {}

    def lessons(self, project: str, version: int | None = None) -> Iterator[tuple[Learned, int]]:
        """Yields what is learned, after each pair that is new since the last call, and the version that has it.

        Goes on from what the folder keeps, which a killed process may have left, if it is of the same pairs.
        """
        memory = Memory(memory_file(self.folder, project))
        newest = memory.version if version is None else version
        if not 0 <= newest <= memory.version:
            raise UserError(f'version {version} of {project}: expected 0 to {memory.version}, the newest')
        pairs = memory.pairs(newest)
        learned = self._newest.get(project) or self._kept(memory)
        if not _begins(pairs, learned.pairs):
            learned = self.learner.start()
        new = pairs[len(learned.pairs) :]
        if not new:
            yield learned, newest
        for left, pair in zip(reversed(range(len(new))), new, strict=True):
            learned = self.learner.learn(learned, pair)
            self._newest[project] = learned
            if not left or memory.pairs(pair.number) == list(learned.pairs):  # nothing was taken back since
                yield learned, pair.number if left else newest

    def learned(self, project: str, version: int | None = None) -> Learned:
        """What is learned at a version."""
        *_, (learned, _) = self.lessons(project, version)
        return learned

    def keep(self, project: str, learned: Learned, version: int) -> None:
        """Writes what was learned, for servers and the next process that learns."""
        pairs = [pair[:-1] for pair in learned.pairs]
        head = {'model': self.learner.digest, 'version': version, 'pairs': pairs, 'left_out': learned.left_out}
        with written_whole(learned_file(memory_file(self.folder, project))) as opened:
            np.savez(opened, json.dumps(head), **{name: np.asarray(leaf) for name, leaf in learned.changed.items()})

    def _kept(self, memory: Memory) -> Learned:
        head, changed = read_kept(memory.file, self.learner.digest)
        if not head:
            return self.learner.start()
        pairs = tuple(Pair(*fields) for fields in head['pairs'])
        left_out = {int(place): why for place, why in head['left_out'].items()}
        return Learned(pairs, left_out, jax.tree.map(jnp.asarray, changed))


def read_kept(memory: Path, digest: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `keep` wrote: the head, such as `version`, and the changed parameters; both empty for another model."""
    file = learned_file(memory)
    if not file.exists():
        return {}, {}
    with naming_damage(file, 'remove it: it is made again'), open_regular(file) as opened:
        arrays = dict(np.load(opened, allow_pickle=False))
        head = parse_json(str(arrays.pop('arr_0')))
        return (head, arrays) if head['model'] == digest else ({}, {})


def _begins(pairs: Sequence[Pair], first: Sequence[Pair]) -> bool:
    return [pair[:4] for pair in pairs[: len(first)]] == [pair[:4] for pair in first]


def write_run(reference: str, output: Path, params: Any) -> None:
    """Makes a run of a model with other parameters."""
    run = Run(split_reference(reference)[0])
    write_copy(run, output, run.read_config(), params)

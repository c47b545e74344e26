"""The fingerprint of data: all that is in them counts, and nothing else."""

import subprocess
import sys
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from toy_runs import train_circle
from toy_task import CircleConfig

from flax_transformer.common.errors import UserError
from flax_transformer.engine.fingerprint import fingerprint_of


class Color(Enum):
    RED = 1


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Text:
    lines: list[str]
    lengths: dict[str, np.ndarray]


def text(*lines: str) -> Text:
    return Text([*lines], {line: np.arange(len(line)) for line in lines})


SAMPLES = [
    *(None, True, 1, 1.0, '1', b'1', '', (), [], {}, set(), Color.RED, Pair(1, 2), (1, 2), [1, 2], [2, 1], [[1], 2]),
    *({'a': 1}, {'a': 2}, {1, 2}, {1, 3}, range(3), range(4), text('ab', 'c'), text('c', 'ab'), text('ab', 'd')),
    *(np.arange(4), np.arange(4)[::-1], np.arange(4.0), np.arange(4).reshape(2, 2), np.arange(4, dtype=np.int8)),
    *(np.array(['a', 'b']), np.array(['a', None], object), np.float32(1), jnp.ones(2, jnp.bfloat16), np.zeros((0, 2))),
]


def test_whatever_differs_has_another_fingerprint_in_every_process() -> None:
    found = [fingerprint_of(sample) for sample in SAMPLES]
    assert len({*found}) == len(SAMPLES)
    assert fingerprint_of({'a': 1, 'b': 2}) == fingerprint_of({'b': 2, 'a': 1})
    program = 'import test_fingerprint as t; print(*map(t.fingerprint_of, t.SAMPLES))'
    command = [sys.executable, '-c', f'import sys; sys.path[:0] = {sys.path!r}; {program}']
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=Path(__file__).parent, check=True)
    assert done.stdout.split() == found


def test_the_content_of_a_file_counts(tmp_path: Path) -> None:
    (tmp_path / 'a').write_text('one')
    (tmp_path / 'b').write_text('one')
    before = fingerprint_of(tmp_path / 'a')
    assert before == fingerprint_of(tmp_path / 'b')
    (tmp_path / 'a').write_text('two')
    assert fingerprint_of(tmp_path / 'a') != before


@pytest.mark.parametrize(
    ('value', 'place'), [(print, ''), (Pair(1, [print]), r'\[1\]\[0\]'), ({'a': iter(())}, r"\['a'\]"), (Path('/'), '')]
)
def test_what_has_none_is_named_with_the_remedy(value: Any, place: str) -> None:
    with pytest.raises(UserError, match=f'what prepare returns{place} is a .*Declare the task with fingerprint='):
        fingerprint_of(value)


@pytest.mark.slow
def test_a_run_of_ones_own_task_does_not_go_on_with_reversed_text(tmp_path: Path) -> None:
    config = CircleConfig(training=replace(CircleConfig().training, steps=2, checkpoint_every=1))
    longer = replace(config, training=replace(config.training, steps=3))
    data = {'train': np.frombuffer(b'the text', np.uint8), 'names': ['a', 'b']}
    backward = data | {'train': data['train'][::-1]}
    train_circle(tmp_path / 'run', config, prepare=lambda *_, **__: data)
    with pytest.raises(UserError, match='the data of circle is not what'):
        train_circle(tmp_path / 'run', longer, prepare=lambda *_, **__: backward)
    train_circle(tmp_path / 'run', longer, prepare=lambda *_, **__: data | {'train': data['train'].copy()})
    longer = replace(config, training=replace(config.training, steps=4))
    with pytest.raises(UserError, match='was trained on so far'):
        train_circle(tmp_path / 'run', longer, fingerprint=lambda config, prepared: 'mine')

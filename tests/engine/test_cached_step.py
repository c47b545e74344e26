"""A train step from the compilation cache: its results, with donated states, are those of a fresh one to the bit."""

from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from toy_runs import make_trainer, train_circle
from toy_task import CircleConfig, draw

from flax_transformer.engine import launch
from flax_transformer.engine.config import ParallelConfig

SETTINGS = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')
HITS: list[str] = []
jax.monitoring.register_event_listener(lambda event, **_: HITS.append(event) if event.endswith('/cache_hits') else None)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_cached_step_equals_a_fresh_one_to_the_bit(tmp_path) -> None:
    parallel = ParallelConfig('mesh', data=2, fsdp=2)

    def end() -> tuple[bytes, int]:
        """The state after five steps of a new trainer, which compiles its own step; and the number of cache hits."""
        HITS.clear()
        compilation_cache.reset_cache()
        trainer = make_trainer(replace(CircleConfig(), parallel=parallel))
        state = trainer.init_state()
        for number in range(1, 6):
            state, _ = trainer.step(state, draw(number))
        return b''.join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)), len(HITS)

    jax.config.update('jax_compilation_cache_dir', str(tmp_path))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
    fresh, hits = end()
    assert hits == 0
    cached, hits = end()
    assert hits > 0
    assert fresh == cached


def test_training_turns_the_cache_on_before_it_compiles(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def turn_on() -> None:
        raise KeyError('turned on')

    monkeypatch.setattr(launch, 'use_compilation_cache', turn_on)
    with pytest.raises(KeyError, match='turned on'):
        train_circle(tmp_path / 'run', CircleConfig())

"""Training that is killed again and again must end as if nothing had happened, to the bit.

    python benchmarks/kill.py [--kills 1000] [--strategy pmap|mesh|fsdp] [--seed 0]

A tiny model trains with all that has a state or draws at random switched on: dropout, R-Drop, a moving average, a
mixture of two corpora by weights, BPE-dropout, each batch in two passes, on two simulated devices. It saves every
second step and is killed (SIGKILL) at random moments: most while it saves, some while it starts. Prints one line of
JSON: the kills, how many of them left a half-written checkpoint, what differs in the end from a run that was left alone
(parameters, moments, average, data position, metrics but for times; `[]`: nothing), the seconds.

Each life is a fork of this process, which has imported everything and touched no device: a start takes a second.
"""

import argparse
import contextlib
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')  # compiling takes longer than running

import jax
import numpy as np

from flax_transformer.config import (
    Config,
    CorpusConfig,
    DataConfig,
    OptimizerConfig,
    ParallelConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)
from flax_transformer.engine.devices.devices import prepare_devices
from flax_transformer.engine.monitor.reporter import Reporter, read_metrics
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.translation.task import make_trainer
from flax_transformer.tasks.translation.train import train

STEPS_PER_LIFE = 16
PARALLEL = {'pmap': ParallelConfig('pmap'), 'mesh': ParallelConfig('mesh'), 'fsdp': ParallelConfig('mesh', fsdp=2)}
TIMES = {'time', 'target_tokens_per_second', 'target_slots_per_second', 'matrix_peak', 'seconds_per_step', 'data_wait'}


def everything_on(folder: Path, steps: int, *, strategy: str = 'pmap', num_devices: int = 2) -> Config:
    """A tiny model with all that must be resumed; its corpora are written into the folder."""
    rng = np.random.default_rng(0)
    for name, pairs in (('one', 400), ('two', 150)):
        lines = [' '.join(rng.choice(list('abcdefgh'), rng.integers(2, 8))) for _ in range(pairs)]
        for language in ('in', 'out'):
            (folder / f'{name}.{language}').write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
    return Config(
        model=TransformerConfig(
            vocab_size=20,
            d_model=16,
            num_heads=2,
            d_ff=32,
            num_encoder_layers=1,
            num_decoder_layers=1,
            attention_dropout_rate=0.1,
            activation_dropout_rate=0.1,
        ),
        tokenizer=TokenizerConfig(byte_fallback=False),
        data=DataConfig(
            source_language='in',
            target_language='out',
            mixture=(
                CorpusConfig('one', 'one.{lang}', '', weight=2.0),
                CorpusConfig('two', 'two.{lang}', '', weight=1.0),
            ),
            root=str(folder),
            source_length=32,
            target_length=32,
            block_size=100,  # sentences: a block ends within every life
            bpe_dropout=0.1,
        ),
        optimizer=OptimizerConfig(schedule='inverse_sqrt', learning_rate=1e-2, warmup_steps=25, ema_decay=0.9),
        training=TrainingConfig(
            steps=steps,
            tokens_per_step=256,
            log_every=5,
            evaluate_every=steps,
            checkpoint_every=2,
            keep_last=2,
            r_drop_alpha=1.0,
        ),
        parallel=replace(PARALLEL[strategy], num_devices=num_devices, max_tokens_per_device=64),  # two passes
    )


def differences(ours: Path, expected: Path, config: Config) -> list[str]:
    """What differs in the last checkpoints and the metrics of two runs of a config."""
    trainer = make_trainer(config)
    found = []
    ends = []
    for run in (ours, expected):
        with contextlib.closing(Checkpoints(run / 'checkpoints')) as checkpoints:
            ends.append(checkpoints.restore(trainer.shapes))
    (state, position), (expected_state, expected_position) = ends
    leaves = zip(
        jax.tree_util.tree_leaves_with_path(state), jax.tree_util.tree_leaves_with_path(expected_state), strict=True
    )
    for (path, leaf), (_, other) in leaves:
        if np.asarray(leaf).tobytes() != np.asarray(other).tobytes():
            found.append(jax.tree_util.keystr(path, simple=True, separator='/'))
    for each in (position, expected_position):
        for name in ('seconds', 'waited'):
            del each['progress']['window'][name]
    found += ['position'] * (position != expected_position)
    metrics, expected_metrics = (
        [{name: value for name, value in record.items() if name not in TIMES} for record in read_metrics(run)]
        for run in (ours, expected)
    )
    return found + ['metrics'] * (metrics != expected_metrics)


def start(config: Config, run: Path, log: Path) -> tuple[int, int]:
    """A life: the process that trains, and a pipe that gives a byte for each step."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    os.close(read)
    code = 1
    with log.open('a') as opened:
        os.dup2(opened.fileno(), 2)
        try:
            prepare_devices(config.parallel.num_devices)
            Reporter.advance = lambda *_: os.write(write, b'.')
            train(config, run)
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)


def live(config: Config, run: Path, log: Path, *, steps: int | None, rng: random.Random) -> int | None:
    """Lives until it is killed, some time after its first step or before, and after `steps` at the latest.

    Returns the exit code, None where it was killed; without `steps` it is left alone.
    """
    pid, pipe = start(config, run, log)
    begins = rng.random() < 0.15  # whether it is killed while it starts
    ends = time.monotonic() + (rng.uniform(0.0, 1.0) if begins else 600.0)
    made = 0
    while time.monotonic() < ends and (steps is None or made < steps):
        if select.select([pipe], [], [], max(0.0, ends - time.monotonic()))[0]:
            new = len(os.read(pipe, 1000))
            if not new:
                break
            if not made and steps and not begins:
                ends = time.monotonic() + rng.uniform(0.0, 0.6)
            made += new
    if steps is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.close(pipe)
    _, status = os.waitpid(pid, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def kill_again_and_again(folder: Path, kills: int, *, strategy: str = 'pmap', seed: int = 0) -> dict:
    """Kills a run so many times, lets it end, and compares it with one that was left alone."""
    began, rng = time.monotonic(), random.Random(seed)
    jax.config.update('jax_compilation_cache_dir', str(folder / 'compiled'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
    config = everything_on(folder, STEPS_PER_LIFE * (kills + 1), strategy=strategy)
    alone = replace(config, training=replace(config.training, checkpoint_every=config.training.steps))
    log = folder / 'log'
    assert live(alone, folder / 'alone', log, steps=None, rng=rng) == 0, log.read_text()
    while_saving = 0
    for _ in range(kills):
        code = live(config, folder / 'killed', log, steps=STEPS_PER_LIFE, rng=rng)
        assert code is None, log.read_text()[-3000:]
        while_saving += any((folder / 'killed' / 'checkpoints').glob('*.orbax-checkpoint-tmp*'))
    assert live(config, folder / 'killed', log, steps=None, rng=rng) == 0, log.read_text()[-3000:]
    prepare_devices(config.parallel.num_devices)
    differ = differences(folder / 'killed', folder / 'alone', config)
    seconds = round(time.monotonic() - began, 1)
    return {'strategy': strategy, 'kills': kills, 'while_saving': while_saving, 'differ': differ, 'seconds': seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--kills', type=int, default=1000)
    parser.add_argument('--strategy', choices=tuple(PARALLEL), default='pmap')
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(
            json.dumps(kill_again_and_again(Path(folder), options.kills, strategy=options.strategy, seed=options.seed))
        )


if __name__ == '__main__':
    main()

"""Training that is killed again and again must end as if nothing had happened, to the bit.

    python benchmarks/kill.py [--kills 1000] [--strategy pmap mesh fsdp] [--real 30] [--seed 0]

A tiny Transformer trains with all that has a state or draws at random switched on: dropout, R-Drop, a moving average, a
mixture of two corpora by weights, BPE-dropout, evaluations, two passes a step, on two simulated devices. It saves every
second step, keeps one or two checkpoints, and is ended at any time, or shortly after its files changed: so most often
while a checkpoint is saved, replaced or deleted. It is ended by SIGKILL, SIGTERM and SIGINT, once, twice, or SIGTERM
and then SIGKILL. Each life is a fork of this process, which has imported everything and touched no device; `--real` of
the kills are of `flax-transformer train` itself, imports included.

Each time that a run reaches its last step it is compared with one that was left alone, and another begins. Prints one
line of JSON for each strategy and one for their sum: the runs, the kills, how many hit which phase, the exit codes, and
what was not as it should be ([]: nothing):
- parameters, moments, average, data position, metrics (but for times), the best checkpoint;
- metrics.jsonl repeats no record, and no file or folder is left of what was interrupted;
- exit codes are 75 after SIGTERM and SIGINT, 130 after a second SIGINT, or 0 where the run was complete;
- no traceback.
"""

import argparse
import collections
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')  # compiling takes longer than running

import jax
import numpy as np
from kill_config import everything_on
from killers import STEPS, Killer
from measuring import in_fork, write_config

from flax_transformer.config import Config
from flax_transformer.engine.monitor.reporter import METRICS_FILE, read_metrics
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.tasks.api import make_trainer

TIMES = {
    'time',
    'seconds',
    'target_tokens_per_second',
    'target_slots_per_second',
    'matrix_peak',
    'seconds_per_step',
    'data_wait',
}


def differences(ours: Path, expected: Path, config: Config) -> list[str]:
    """What differs in the last checkpoints and the metrics of two runs of a config."""
    trainer = make_trainer(config)
    found, ends, best = [], [], []
    for run in (ours, expected):
        checkpoints = CheckpointReader(run / 'checkpoints')
        ends.append(checkpoints.restore(trainer.shapes))
        best.append(checkpoints.best())
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
    found += ['position'] * (position != expected_position) + ['best checkpoint'] * (best[0] != best[1])
    metrics, expected_metrics = (
        [{name: value for name, value in record.items() if name not in TIMES} for record in read_metrics(run)]
        for run in (ours, expected)
    )
    return found + ['metrics'] * (metrics != expected_metrics)


def leftovers(run: Path) -> list[str]:
    """Repeated or torn records, and what is left of interrupted work."""
    records = [json.loads(line) for line in (run / METRICS_FILE).read_text().splitlines()]
    names = [(record['kind'], record['step']) for record in records]
    found = ['repeated metrics'] * (len(set(names)) < len(names))
    steps = [file for file in (run / 'checkpoints').iterdir() if not file.name.isdecimal()]
    others = [run / name for name in ('replaced_checkpoint', 'damaged_checkpoints', 'deleted_checkpoints')]
    return (
        found
        + [f'{file.name} is left' for file in steps + others if file.exists()]
        + [f'{file.name} is left' for file in run.rglob('*.partial')]
    )


def kill_again_and_again(
    folder: Path, kills: int, *, strategy: str, seed: int = 0, is_real: bool = False
) -> dict[str, Any]:
    """Kills so many lives of runs, and compares each run at its end with one that was left alone."""
    began, rng = time.monotonic(), random.Random(f'{seed} {strategy} {is_real}')
    config = everything_on(folder, STEPS, strategy=strategy)
    file = folder / 'config.py'
    write_config(file, f'kill_config.everything_on(HERE, {STEPS}, strategy={strategy!r})')
    cache = str(folder / 'compiled')
    os.environ['JAX_COMPILATION_CACHE_DIR'], os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = cache, '0'
    jax.config.update('jax_compilation_cache_dir', cache)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
    killer = Killer(config, file, folder, rng, is_real=is_real)
    alone, runs = folder / 'alone', 0
    killer.live(alone, is_killed=False)
    while (killer.counts.total() < kills or runs == 0) and len(killer.wrong) < 5:
        run = folder / f'killed {runs + 1}'
        before = len(killer.wrong)
        while killer.live(run, is_killed=killer.counts.total() < kills) != 0:
            pass
        runs += 1
        for what in in_fork(faults, run, alone, config):
            killer.wrong.append(f'run {runs}: {what}')
        print(f'{strategy}: {runs} runs, {killer.counts.total()} kills, wrong: {len(killer.wrong)}', file=sys.stderr)
        if len(killer.wrong) == before:  # else it stays to be looked at
            shutil.rmtree(run)
    return {
        'strategy': strategy + ', real processes' * is_real,
        'kills': killer.counts.total(),
        'runs': runs,
        'phases': dict(killer.counts.most_common()),
        'codes': dict(killer.codes.most_common()),
        'differ': killer.wrong,
        'seconds': round(time.monotonic() - began),
    }


def faults(run: Path, alone: Path, config: Config) -> list[str]:
    config.parallel.prepare_devices()
    return leftovers(run) + differences(run, alone, config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--kills', type=int, default=1000)
    parser.add_argument('--real', type=int, default=30)
    parser.add_argument('--strategy', nargs='+', choices=('pmap', 'mesh', 'fsdp'), default=['pmap', 'mesh', 'fsdp'])
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    parts, found = len(options.strategy), []
    for number, strategy in enumerate(options.strategy):
        for kills, is_real in ((options.kills - options.real, False), (options.real, True)):
            share = kills // parts + (number < kills % parts)
            if share <= 0:
                continue
            folder = Path(tempfile.mkdtemp(prefix='kill_'))
            settings = {'strategy': strategy, 'seed': options.seed, 'is_real': is_real}
            result = in_fork(kill_again_and_again, folder, share, **settings)
            print(json.dumps(result), flush=True)
            found.append(result)
            if not result['differ']:
                shutil.rmtree(folder)
    total = {'kills': sum(each['kills'] for each in found), 'runs': sum(each['runs'] for each in found)}
    phases = sum((collections.Counter(each['phases']) for each in found), collections.Counter())
    print(json.dumps(total | {'phases': dict(phases.most_common()), 'differ': sum(bool(e['differ']) for e in found)}))


if __name__ == '__main__':
    main()

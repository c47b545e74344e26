"""Reading checkpoints while training saves, replaces and deletes them must always give a whole one.

    python benchmarks/read_while_training.py [--reads 3000] [--readers 2]

One process saves as fast as it can and keeps one checkpoint; every third is saved again, as after an evaluation that
was made up for. The others open the folder and read, over and over: the newest, the best, the mean of all. Prints one
line of JSON: the saves, the reads, how many were of which kind, and how many failed with what.
"""

import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import tempfile
import time
import traceback
from multiprocessing.synchronize import Event
from pathlib import Path

os.environ['JAX_PLATFORMS'] = 'cpu'

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging

from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.reading import CheckpointReader
from flax_transformer.engine.task import TrainState


def make_state(step: int) -> TrainState:
    """A state whose parameters all say their step."""
    params = {name: jnp.full((8, 8), float(step)) for name in 'abcdefgh'}
    return TrainState(jnp.int32(step), params, optax.adam(1e-3).init(params), None)


def save(folder: Path, stop: Event, saves: multiprocessing.SimpleQueue) -> None:
    """Saves until it is asked to stop, and says how often it did."""
    step = 0
    with contextlib.closing(Checkpoints(folder, keep_last=1)) as checkpoints:
        while not stop.is_set():
            step += 1
            for _ in range(1 + (step % 3 == 0)):
                checkpoints.save(make_state(step), {'step': step}, {'validation_loss': 1.0 + step % 7})
    saves.put(step + step // 3)


def read(folder: Path, reads: int) -> collections.Counter[str]:
    """Reads so many times, from the first checkpoint on; returns what came of it."""
    while not (folder / '1').exists():
        time.sleep(0.01)
    found: collections.Counter[str] = collections.Counter()
    shapes = jax.eval_shape(lambda: make_state(0).params)
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes)
    for number in range(reads):
        try:
            checkpoints = CheckpointReader(folder, say=lambda text: None)
            if number % 3 == 2:
                params, _ = checkpoints.restore_mean(like, checkpoints.steps)
            elif number % 3:
                params, _ = checkpoints.restore_params(like, 'last')
            else:
                params, _ = checkpoints.restore_params(like)
            values = {float(x) for leaf in jax.tree.leaves(params) for x in np.unique(leaf)}
            found['whole' if len(values) == 1 else f'mixed {values}'] += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = ''.join(each for each in str(error).splitlines()[0] if not each.isdigit())
            found[f'{type(error).__name__}: {text.replace(str(folder), "")[:70]} ({Path(where.filename).name})'] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--reads', type=int, default=3000)
    parser.add_argument('--readers', type=int, default=2)
    options = parser.parse_args()
    logging.set_verbosity(logging.FATAL)
    fork = multiprocessing.get_context('fork')  # this process has touched no device
    stop, saves = fork.Event(), fork.SimpleQueue()
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top, 'run', 'checkpoints')
        writer = fork.Process(target=save, args=(folder, stop, saves))
        writer.start()
        with fork.Pool(options.readers) as readers:
            reads = [(folder, options.reads // options.readers)] * options.readers
            found = sum(readers.starmap(read, reads, chunksize=1), collections.Counter())
        stop.set()
        writer.join()
    record = {'saves': saves.get(), 'reads': found.total(), 'found': dict(found.most_common())}
    print(json.dumps(record))


if __name__ == '__main__':
    main()

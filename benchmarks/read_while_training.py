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
import os
import tempfile
import time
import traceback
from pathlib import Path

os.environ['JAX_PLATFORMS'] = 'cpu'

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging

from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.state import TrainState


def make_state(step: int) -> TrainState:
    """A state whose parameters all say their step."""
    params = {name: jnp.full((8, 8), float(step)) for name in 'abcdefgh'}
    return TrainState(jnp.int32(step), params, optax.adam(1e-3).init(params), None)


def save(folder: Path, stop: int) -> None:
    """Saves until the pipe `stop` is closed."""
    os.set_blocking(stop, False)
    step = 0
    with contextlib.closing(Checkpoints(folder, keep_last=1)) as checkpoints:
        while True:
            step += 1
            for _ in range(1 + (step % 3 == 0)):
                checkpoints.save(make_state(step), {'step': step}, {'validation_loss': 1.0 + step % 7})
            with contextlib.suppress(BlockingIOError):
                if not os.read(stop, 1):
                    break
    print(json.dumps({'saves': step * 4 // 3}), flush=True)


def read(folder: Path, reads: int) -> dict[str, int]:
    """What came of so many reads."""
    found: dict[str, int] = collections.Counter()
    shapes = jax.eval_shape(lambda: make_state(0).params)
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes)
    for number in range(reads):
        try:
            with contextlib.closing(Checkpoints(folder, read_only=True, say=lambda text: None)) as checkpoints:
                if number % 3 == 2:
                    params = checkpoints.restore_average(like, 9)
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


def all_of(pipe: int) -> bytes:
    with open(pipe, 'rb') as opened:
        return opened.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--reads', type=int, default=3000)
    parser.add_argument('--readers', type=int, default=2)
    options = parser.parse_args()
    logging.set_verbosity(logging.FATAL)
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top, 'run', 'checkpoints')
        stop, running = os.pipe()
        pipes = []
        if not (writer := os.fork()):
            os.close(running)
            save(folder, stop)
            os._exit(0)
        for _ in range(options.readers):
            answer, answers = os.pipe()
            if not os.fork():
                while not (folder / '1').exists():
                    time.sleep(0.01)
                os.write(answers, json.dumps(read(folder, options.reads // options.readers)).encode())
                os._exit(0)
            os.close(answers)
            pipes.append(answer)
        found = sum((collections.Counter(json.loads(all_of(pipe))) for pipe in pipes), collections.Counter())
        os.close(running)
        os.close(stop)
        os.waitpid(writer, 0)
    print(json.dumps({'reads': found.total(), 'found': dict(found.most_common())}, indent=1))


if __name__ == '__main__':
    main()

"""Scaled, unscaled and additive attention by d_k: which of them learns to look things up (the paper's footnote 4)?

    python benchmarks/attention_scores.py [--widths 4 16 64 128 256 512] [--scores scaled_dot dot additive]
        [--seeds 3] [--steps 100] [--output scores.jsonl]

One attention layer of ours with a single head of width d_k, so that d_k is all that changes. A row has 16 items, each
the sum of the vectors of a name and of a value; 16 queries, vectors of names, ask for the values. All vectors are
trained, 128 wide. Query and key kernels are drawn so that the components of queries and keys have variance 1, as the
footnote assumes. Adam at a constant rate, the same for all.

Prints one line of JSON for each d_k, score and seed, and appends it to `--output`; what is there already is not run
again. Before the first step: `variance`, that of q . k; `largest_weight`, the mean of the queries' largest weights; and
`qk_gradient_at_start`, the norm of the gradient of the query and key kernels. `loss` (nats a query; who knows nothing
has log 32 = 3.47), `accuracy`, `qk_gradient` and `gradient`, that of all parameters, are means of the last 20 steps.
"""

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path

os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flax_transformer.transformer.attention import MultiHeadAttention
from flax_transformer.transformer.cache import KVCache

ROWS, ITEMS, NAMES, VALUES, WIDTH, LAST = 32, 16, 64, 32, 128, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--widths', type=int, nargs='+', default=[4, 16, 64, 128, 256, 512])
    parser.add_argument('--scores', nargs='+', default=['scaled_dot', 'dot', 'additive'])
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=100)
    parser.add_argument('--learning-rate', type=float, default=1e-3)
    parser.add_argument('--output', type=Path, default=Path('scores.jsonl'))
    options = parser.parse_args()
    lines = options.output.read_text('utf-8').splitlines() if options.output.exists() else []
    done = {tuple(json.loads(line)[name] for name in ('d_k', 'score', 'seed')) for line in lines}
    for width in options.widths:
        for score in options.scores:
            todo = [seed for seed in range(options.seeds) if (width, score, seed) not in done]
            for line in train(width, score, todo, options.steps, options.learning_rate) if todo else ():
                print(json.dumps(line), flush=True)
                with options.output.open('a', encoding='utf-8') as file:
                    print(json.dumps(line), file=file)


def train(width: int, score: str, seeds: list[int], steps: int, learning_rate: float):
    """Yields a line for each seed."""
    model = MultiHeadAttention(d_model=WIDTH, num_heads=1, head_dim=width, score=score)
    tx = optax.adam(learning_rate)
    step = jax.jit(partial(update, model=model, tx=tx), donate_argnums=0)
    for seed in seeds:
        began = time.process_time()
        draw = np.random.default_rng(seed)
        params = init_params(model, jax.random.key(seed))
        start = before_training(params, draw_batch(draw), model)
        state, last = (params, tx.init(params)), []
        for number in range(steps):
            state, found = step(state, draw_batch(draw))
            if number >= steps - LAST:
                last.append(found)
        means = {name: np.mean([each[name] for each in last]) for name in last[0]}
        found = {name: round(float(value), 4) for name, value in (start | means).items()}
        line = {'d_k': width, 'score': score, 'seed': seed, 'steps': steps} | found
        yield line | {'cpu_seconds': round(time.process_time() - began, 1)}


def init_params(model: MultiHeadAttention, key: jax.Array):
    keys = jax.random.split(key, 6)
    x = jnp.zeros((1, 1, WIDTH))
    attention = model.init(keys[0], x, x)['params']
    for name, each in (('query', keys[1]), ('key', keys[2])):
        kernel = attention[name]['kernel']
        attention[name] = {'kernel': jax.random.normal(each, kernel.shape) * WIDTH**-0.5}
    tables = {
        name: jax.random.normal(each, (size, WIDTH))
        for name, each, size in (('names', keys[3], NAMES), ('values', keys[4], VALUES))
    }
    return tables | {'attention': attention, 'output': jax.random.normal(keys[5], (WIDTH, VALUES)) * WIDTH**-0.5}


def draw_batch(draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Names of the items, no two alike in a row, their values, the names asked for, and the values of those."""
    names = draw.permuted(np.tile(np.arange(NAMES), (ROWS, 1)), axis=1)[:, :ITEMS]
    values, asked = draw.integers(0, VALUES, (ROWS, ITEMS)), draw.integers(0, ITEMS, (ROWS, ITEMS))
    take = lambda x: np.take_along_axis(x, asked, axis=1)
    return {'names': names, 'values': values, 'queries': take(names), 'answers': take(values)}


def inputs_of(params, batch):
    """Queries and items, of variance 1."""
    items = (params['names'][batch['names']] + params['values'][batch['values']]) * 0.5**0.5
    return params['names'][batch['queries']], items


def loss_of(params, batch, model):
    logits = model.apply({'params': params['attention']}, *inputs_of(params, batch)) @ params['output']
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch['answers']).mean()
    return loss, (logits.argmax(axis=-1) == batch['answers']).mean()


def update(state, batch, *, model, tx):
    params, opt_state = state
    (loss, accuracy), gradients = jax.value_and_grad(loss_of, has_aux=True)(params, batch, model)
    updates, opt_state = tx.update(gradients, opt_state)
    norms = {'qk_gradient': norm_of_kernels(gradients), 'gradient': optax.tree.norm(gradients)}
    return (optax.apply_updates(params, updates), opt_state), {'loss': loss, 'accuracy': accuracy} | norms


def norm_of_kernels(gradients) -> jax.Array:
    return optax.tree.norm([gradients['attention'][name] for name in ('query', 'key')])


@partial(jax.jit, static_argnames='model')
def before_training(params, batch, model) -> dict[str, jax.Array]:
    queries, items = inputs_of(params, batch)
    own = params['attention']
    q, k = queries @ own['query']['kernel'], items @ own['key']['kernel']
    cache = KVCache.packed(k[:, :, None], k[:, :, None])
    _, weights = model.apply({'params': own}, queries, cache, None, method='attend_cached')
    return {
        'variance': jnp.einsum('BTK,BSK->BTS', q, k).var(),
        'largest_weight': weights.max(axis=-1).mean(),
        'qk_gradient_at_start': norm_of_kernels(jax.grad(loss_of, has_aux=True)(params, batch, model)[0]),
    }


if __name__ == '__main__':
    main()

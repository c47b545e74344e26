"""GloVe: two words predict the logarithm of how often they occur together (Pennington et al. 2014).

Each word has two vectors, each with a bias in its last column.

Occurrences are counted in sorted runs on disk that are then merged. A pair at distance d counts 1 / d (section 4.2),
from both of its sides: a word next to itself counts twice. Each pair of words is kept once, the smaller id first,
sorted by ids.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.files import naming, written_whole
from flax_transformer.engine.task import Params, Share, Sums

from .config import EmbeddingsModelConfig
from .corpus import END_OF_LINE
from .word2vec import rows_add, rows_of

_EXPONENT = 0.75  # alpha, in a pair's weight (section 3.1)
_MEAN_EXPONENT = 0.75  # weights a word by its count, in the mean that is subtracted
_SEGMENT = 64  # consecutive pairs on disk that are read together
CHUNK = 1 << 14  # segments of a chunk


class Pairs(NamedTuple):
    """Pairs of words; a pair that occurs 0 times weighs nothing. R rows, P pairs of a row."""

    first: np.ndarray  # [R, P] int32
    second: np.ndarray  # [R, P] int32
    count: np.ndarray  # [R, P] float32


class PairChunks:
    """The pairs of a file; those of a chunk are shuffled anew in each epoch."""

    def __init__(self, pairs: np.ndarray, *, block_size: int, segment: int = _SEGMENT, chunk: int = CHUNK) -> None:
        """`pairs`: [n] of PAIR; it may be on disk."""
        self._pairs = pairs
        self._size = block_size
        self._segment = segment
        self._chunk = chunk

    def __len__(self) -> int:
        return -(-len(self._pairs) // (self._segment * self._chunk))

    def __call__(self, chunk: int, generator: np.random.Generator) -> Pairs:
        """Every len(self)-th segment, from `chunk` on, with the pairs shuffled and cut into rows."""
        starts = np.arange(chunk, -(-len(self._pairs) // self._segment), len(self)) * self._segment
        indices = (starts[:, None] + np.arange(self._segment)).ravel()
        pairs = self._pairs[indices[indices < len(self._pairs)]]

        rows = -(-len(pairs) // self._size)
        padded = np.zeros(rows * self._size, PAIR)
        padded[: len(pairs)] = pairs[generator.permutation(len(pairs))]
        return Pairs(*(np.ascontiguousarray(padded[name]).reshape(rows, self._size) for name in PAIR.names))


def init_glove(config: EmbeddingsModelConfig, key: jax.Array) -> Params:
    """Both vectors of each word and their biases, small at random."""
    shape = (2, config.vocab_size, config.d_model + 1)
    tables = jax.random.uniform(key, shape, jnp.float32, minval=-0.5, maxval=0.5) / (config.d_model + 1)
    return {'input': tables[0], 'output': tables[1]}


def glove_vectors(params: Params, counts: np.ndarray) -> np.ndarray:
    """The vectors that are used, float32 [V, D]: the sum of each word's two (section 4.2), less their mean.

    The loss does not define a mean: if one vector is added to all of a table, the other table's biases make up for it.
    Left as it is, it makes rare words alike.
    """
    shares = counts**_MEAN_EXPONENT
    shares = (shares / shares.sum()).astype(np.float32)
    summed = sum(np.asarray(params[name])[: len(counts), :-1] for name in ('input', 'output'))
    return summed - shares @ summed


def update_block(
    params: Params, squares: Params, pairs: Pairs, *, rate: jax.Array, x_max: float, share: Share
) -> tuple[Params, Params, Sums]:
    """The tables, AdaGrad's sums of squared gradients after a block [P], and the block's sums."""
    ids = jnp.concatenate([pairs.first, pairs.second])
    inputs = rows_of(params['input'], ids)
    outputs = rows_of(params['output'], ids)
    gradients, sums = _gradients(inputs, outputs, pairs, x_max)
    ids, gradients = share((ids, gradients))

    is_finite = jnp.isfinite(gradients['input']).all() & jnp.isfinite(gradients['output']).all()
    for name, gradient in gradients.items():
        gradient = jnp.where(is_finite, gradient, 0.0)
        # Added before they are read: if XLA could do it in either order, it would copy the whole table.
        squares = squares | {name: rows_add(squares[name], ids, gradient * gradient)}
        delta = -rate * gradient * jax.lax.rsqrt(rows_of(squares[name], ids))
        params = params | {name: rows_add(params[name], ids, delta)}
    return params, squares, sums


def sums_of_block(params: Params, pairs: Pairs, x_max: float) -> Sums:
    ids = jnp.concatenate([pairs.first, pairs.second])
    return _gradients(rows_of(params['input'], ids), rows_of(params['output'], ids), pairs, x_max)[1]


def _gradients(inputs: jax.Array, outputs: jax.Array, pairs: Pairs, x_max: float) -> tuple[Params, Sums]:
    """The gradients of rows [2 P, D + 1] of both tables, and the sums (equation 8).

    Each pair counts in both orders, one word's input with the other's output; two of the same have but one.
    """
    size = len(pairs.first)
    swapped = jnp.concatenate([outputs[size:], outputs[:size]])
    scores = (inputs[:, :-1] * swapped[:, :-1]).sum(axis=1) + inputs[:, -1] + swapped[:, -1]
    count = jnp.concatenate([pairs.count, jnp.where(pairs.first == pairs.second, 0.0, pairs.count)])
    weight = jnp.minimum(count / x_max, 1.0) ** _EXPONENT
    difference = jnp.where(count > 0, scores - jnp.log(jnp.maximum(count, 1e-30)), 0.0)

    error = (weight * difference)[:, None]
    grad_swapped = error * _with_one_for_bias(inputs)
    gradients = {
        'input': error * _with_one_for_bias(swapped),
        'output': jnp.concatenate([grad_swapped[size:], grad_swapped[:size]]),
    }
    loss = 0.5 * (weight * difference * difference).sum()
    return gradients, {'loss': loss, 'pairs': (count > 0).sum().astype(jnp.float32)}


def _with_one_for_bias(vectors: jax.Array) -> jax.Array:
    """Vectors [P, D + 1] with 1 in the last column: the gradient of a score by the other word's row."""
    return jnp.concatenate([vectors[:, :-1], jnp.ones_like(vectors[:, :1])], axis=1)


PAIR = np.dtype([('first', '<i4'), ('second', '<i4'), ('count', '<f4')])
_ENTRY = np.dtype([('key', '<i8'), ('count', '<f8')])
_DISTANCE_BITS = 7  # EmbeddingsModelConfig allows windows up to 100
_ID_BITS = 28  # and vocabularies of up to 2^28 words
_PIECE = 1 << 20  # ids that are thinned at once
_MOST = 1 << 24  # occurrences held at once, 8 bytes each and as many again to sort them


def count_pairs(
    ids: np.ndarray, window: int, out: Path, *, keep: np.ndarray | None = None, seed: int = 0, most: int = _MOST
) -> int:
    """Writes the pairs of words at most `window` apart in a line to `out`, as PAIR; returns how many.

    Each occurrence of a word stays with its probability `keep` [V], drawn by the seed; the words around one that goes
    come closer (Levy et al. 2015, section 3.1). Holds `most` occurrences at once; the rest is on disk, next to `out`.
    """
    folder = out.with_name(f'{out.name}.runs.partial')
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        if keep is not None:
            ids = _thinned(ids, keep, seed, folder / 'ids')

        runs = []
        step = max(most // window, 1)
        for first in range(0, len(ids), step):
            file = folder / str(first)
            with naming(file), file.open('wb') as opened:  # `tofile` does not say why it failed
                opened.write(_run(ids[first : first + step + window], window, step).tobytes())
            if file.stat().st_size:  # an empty file cannot be mapped
                runs.append(np.memmap(file, _ENTRY, mode='r'))

        with written_whole(out) as opened:
            total = 0
            for entries in _merged(runs, most):
                pairs = np.empty(len(entries), PAIR)
                pairs['first'] = entries['key'] >> _ID_BITS
                pairs['second'] = entries['key'] & (2**_ID_BITS - 1)
                pairs['count'] = entries['count'] * np.where(pairs['first'] == pairs['second'], 2, 1)
                opened.write(pairs.tobytes())
                total += len(pairs)
        return total
    finally:
        shutil.rmtree(folder)


def _thinned(ids: np.ndarray, keep: np.ndarray, seed: int, file: Path) -> np.ndarray:
    """The ids that stay, mapped from `file`."""
    with naming(file), file.open('wb') as out:
        for number, first in enumerate(range(0, len(ids), _PIECE)):
            piece = np.asarray(ids[first : first + _PIECE])
            drawn = np.random.default_rng([seed, number]).random(len(piece), np.float32)
            out.write(piece[(piece == END_OF_LINE) | (drawn < keep[piece])].tobytes())
    if not file.stat().st_size:  # an empty file cannot be mapped
        return ids[:0]
    return np.memmap(file, np.int32, mode='r')


def _run(ids: np.ndarray, window: int, step: int) -> np.ndarray:
    """The counts of the pairs whose first word is among the first `step` ids, sorted."""
    line = np.cumsum(ids == END_OF_LINE, dtype=np.int32)
    parts = []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        here = ids[:-distance][:step]
        there = ids[distance:][:step]
        is_same_line = line[:-distance][:step] == line[distance:][:step]
        is_pair = is_same_line & (here != END_OF_LINE) & (there != END_OF_LINE)
        here = here[is_pair].astype(np.int64)
        there = there[is_pair].astype(np.int64)
        # The distance is sorted with the words: sorting numbers is several times faster than an argsort.
        key = np.minimum(here, there) << _ID_BITS | np.maximum(here, there)
        parts.append(key << _DISTANCE_BITS | distance)
    packed = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
    return _summed(packed >> _DISTANCE_BITS, 1.0 / np.maximum(packed & (2**_DISTANCE_BITS - 1), 1))


def _summed(keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sorted keys, each once, with the sums of their counts."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    entries = np.empty(len(starts), _ENTRY)
    entries['key'] = keys[starts]
    entries['count'] = np.add.reduceat(counts, starts)
    return entries


def _merged(runs: list[np.ndarray], most: int) -> Iterator[np.ndarray]:
    """The entries of sorted runs, those with equal keys added up, in order, some `most` at a time."""
    total = sum(map(len, runs))
    if not total:
        return

    # Ends of ranges of keys that hold about `most` entries each, from a sample of every run.
    sample = np.sort(np.concatenate([run['key'][:: max(most // 1024, 1)] for run in runs]))
    ranges = -(-total // most)
    ends = np.unique(sample[np.linspace(0, len(sample) - 1, ranges + 1).astype(int)[1:-1]]).tolist()

    begun = [0] * len(runs)
    for end in [*ends, np.iinfo(np.int64).max]:
        parts = []
        for number, run in enumerate(runs):
            stop = begun[number] + int(np.searchsorted(run['key'][begun[number] :], end))
            parts.append(np.array(run[begun[number] : stop]))
            begun[number] = stop
        entries = np.concatenate(parts)
        entries = entries[np.argsort(entries['key'], kind='stable')]
        yield _summed(entries['key'], entries['count'])

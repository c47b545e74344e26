"""How often two words occur near each other: counted in bounded memory, in sorted runs on disk that are then merged.

A pair at distance d counts 1 / d (Pennington et al. 2014, section 4.2). Each pair of words is kept once, the smaller id
first, sorted by ids.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from flax_transformer.common.files import written_whole
from flax_transformer.tasks.embeddings.corpus import END_OF_LINE

PAIR = np.dtype([('first', '<i4'), ('second', '<i4'), ('count', '<f4')])
_ENTRY = np.dtype([('key', '<i8'), ('count', '<f8')])
_DISTANCE_BITS, _ID_BITS = 7, 28  # EmbeddingsConfig allows windows up to 100, and as many words
_PIECE = 1 << 20  # ids that are thinned at once
_MOST = 1 << 24  # occurrences held at once, 8 bytes each and as many again to sort them


def count_pairs(
    ids: np.ndarray, window: int, out: Path, *, keep: np.ndarray | None = None, seed: int = 0, most: int = _MOST
) -> int:
    """Writes the pairs of words at most `window` apart in a line to `out`, as PAIR; returns how many.

    `ids` has END_OF_LINE after each line. Each occurrence of a word stays with its probability `keep` [V], drawn by the
    seed; the words around one that goes come closer (Levy et al. 2015, section 3.1). Holds `most` occurrences at once;
    the rest is on disk, next to `out`.
    """
    folder = out.with_name(f'{out.name}.runs.partial')
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        if keep is not None:
            ids = _thinned(ids, keep, seed, folder / 'ids')
        runs, step = [], max(most // window, 1)
        for first in range(0, len(ids), step):
            file = folder / str(first)
            _run(ids[first : first + step + window], window, step).tofile(file)
            if file.stat().st_size:  # an empty file cannot be mapped
                runs.append(np.memmap(file, _ENTRY, mode='r'))
        with written_whole(out) as opened:
            total = 0
            for keys, counts in _merged(runs, most):
                pairs = np.empty(len(keys), PAIR)
                pairs['first'], pairs['second'], pairs['count'] = keys >> _ID_BITS, keys & (2**_ID_BITS - 1), counts
                opened.write(pairs.tobytes())
                total += len(pairs)
        return total
    finally:
        shutil.rmtree(folder)


def _thinned(ids: np.ndarray, keep: np.ndarray, seed: int, file: Path) -> np.ndarray:
    """The ids that stay, mapped from `file`."""
    with file.open('wb') as out:
        for number, first in enumerate(range(0, len(ids), _PIECE)):
            piece = np.asarray(ids[first : first + _PIECE])
            drawn = np.random.default_rng([seed, number]).random(len(piece), np.float32)
            out.write(piece[(piece == END_OF_LINE) | (drawn < keep[piece])].tobytes())
    return np.memmap(file, np.int32, mode='r') if file.stat().st_size else ids[:0]  # an empty file cannot be mapped


def _run(ids: np.ndarray, window: int, step: int) -> np.ndarray:
    """The counts of the pairs whose first word is among the first `step` ids, sorted."""
    line = np.cumsum(ids == END_OF_LINE, dtype=np.int32)
    parts = []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        here, there = ids[:-distance][:step], ids[distance:][:step]
        is_pair = (line[:-distance][:step] == line[distance:][:step]) & (here != END_OF_LINE) & (there != END_OF_LINE)
        here, there = here[is_pair].astype(np.int64), there[is_pair].astype(np.int64)
        # The distance is sorted with the words: sorting numbers is several times faster than sorting their places.
        key = np.minimum(here, there) << _ID_BITS | np.maximum(here, there)
        parts.append(key << _DISTANCE_BITS | distance)
    packed = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    return _summed(packed >> _DISTANCE_BITS, 1.0 / np.maximum(packed & (2**_DISTANCE_BITS - 1), 1))


def _summed(keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sorted keys, each once, with the sums of their counts."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    found = np.empty(len(starts), _ENTRY)
    found['key'] = keys[starts]
    found['count'] = np.add.reduceat(counts, starts) if len(starts) else 0.0
    return found


def _merged(runs: list[np.ndarray], most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The entries of sorted runs with equal keys added up, in order, some `most` at a time."""
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
        summed = _summed(entries['key'], entries['count'])
        yield summed['key'], summed['count']

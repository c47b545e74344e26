"""The training examples that `data.held_out` takes out for validation: a pure function of the data and their number."""

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check

from .repeats import NO_KEY, keys_of


def check_held_out(count: int, validation: object) -> None:
    check(count >= 0, f'held_out={count}: expected at least 0')
    check(not count or not validation, f'held_out={count} and validation={validation!r}: leave out one of them')


def held_out_rows(
    name: str, count: int, *columns: Sequence[str] | np.ndarray, labels: Sequence[str] | None = None
) -> np.ndarray:
    """[examples] bool: the examples of corpus `name` that are held out, `count` of them.

    Examples that share a text in one of the columns (texts, or 64-bit hashes) stay on one side; the smallest groups are
    held out first, chosen by a hash. Each label gives its share, and keeps a group for training.
    """
    keys = [column if isinstance(column, np.ndarray) else keys_of(column) for column in columns]
    filled = np.flatnonzero(np.all([column != NO_KEY for column in keys], axis=0))
    groups = _groups([column[filled] for column in keys])
    hashes = np.bitwise_xor.reduce([column[filled] for column in keys])

    by_hash = np.argsort(hashes, kind='stable')
    _, rank = np.unique(groups[by_hash], return_index=True)  # each group's smallest hash, by rank
    size = np.bincount(groups)
    label = np.zeros(len(size), np.int64)
    if labels is not None:
        numbers = np.unique(np.asarray(labels, object)[filled].astype(str), return_inverse=True)[1]
        label = numbers[by_hash][rank]

    order = np.lexsort((rank, size, label))
    label = label[order]
    groups_of_label = np.bincount(label)[label]
    place = np.arange(len(order)) - np.searchsorted(label, label)  # within its label
    must_stay = (place == groups_of_label - 1) | (size[order] > count)
    share = np.where(must_stay, np.inf, (place + 0.5) / groups_of_label)
    candidates = order[np.argsort(share, kind='stable')][: np.count_nonzero(~must_stay)]
    total = np.cumsum(size[candidates])
    available = int(total[-1]) if len(total) else 0
    if available < count:
        raise UserError(
            f'{name}: cannot hold out {count:,} of {len(keys[0]):,} examples, but {available:,} at most, since equal '
            'ones stay together and training keeps some; lower data.held_out, or name a validation set'
        )
    is_held_out = np.zeros(len(keys[0]), bool)
    is_held_out[filled] = np.isin(groups, candidates[total <= count])
    return is_held_out


def repeated_or_empty(texts: Sequence[str]) -> list[str]:
    """The texts as labels: one that occurs once is the empty text, so that its example may be held out."""
    counts = Counter(texts)
    return [text if counts[text] > 1 else '' for text in texts]


def _groups(columns: Sequence[np.ndarray]) -> np.ndarray:
    """[examples] the number of each one's group: examples with an equal value in a column are in one."""
    first, *others = (np.unique(column, return_inverse=True)[1] for column in columns)
    if not others or not len(first):
        return first
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    (second,) = others
    nodes = first.max() + second.max() + 2
    edges = (np.ones(len(first), bool), (first, first.max() + 1 + second))
    group_of_node = connected_components(coo_array(edges, (nodes, nodes)), directed=False)[1]
    return np.unique(group_of_node[first], return_inverse=True)[1]


def key_of(content: bytes) -> np.uint64:
    """A hash of what is not text."""
    return np.frombuffer(hashlib.blake2b(content, digest_size=8).digest(), np.uint64)[0]

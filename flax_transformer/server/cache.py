"""Results that are kept to be given again."""

import collections
import pickle
from collections.abc import Hashable
from typing import Any


class Cache:
    """The results used last, by key."""

    def __init__(self, most: int) -> None:
        """Keeps `most` bytes of them."""
        self._most = most
        self._kept: collections.OrderedDict[Hashable, bytes] = collections.OrderedDict()
        self._size = 0

    def clear(self) -> None:
        self._kept.clear()
        self._size = 0

    def get(self, key: Hashable) -> Any | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return pickle.loads(self._kept[key])

    def put(self, key: Hashable, result: Any) -> None:
        self._size -= len(self._kept.pop(key, b''))
        self._kept[key] = pickle.dumps(result)
        self._size += len(self._kept[key])
        while self._size > self._most:
            self._size -= len(self._kept.popitem(last=False)[1])

"""Whose turn it is among clients that wait."""

import collections
import itertools
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

_KNOWN = 1000  # clients that are remembered at least
_LONG = 0.005  # seconds


class Turns:
    """What clients wait for, each item of some kind. Whoever has had the least time is next.

    A client that comes back starts level with the others: nobody saves time up (fair queueing by start time, Goyal et
    al. 1996).
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, dict[Hashable, collections.deque[tuple[int, Any]]]] = {}
        self._had: dict[Hashable, float] = {}  # seconds
        self._expected: dict[Hashable, float] = {}  # until when clients may come back
        self._level = 0.0  # what the client had whose turn it was last
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, client: Hashable, item: Any, kind: Hashable = None) -> None:
        if client not in self._waiting:
            if len(self._had) > _KNOWN + 2 * len(self._waiting):
                self._had = {name: had for name, had in self._had.items() if had > self._level}
            self._had[client] = max(self._had.get(client, 0.0), self._level)
            self._waiting[client] = {}
        self._waiting[client].setdefault(kind, collections.deque()).append((next(self._numbers), item))

    def take(self) -> tuple[Hashable, Hashable, Any]:
        """The client whose turn it is, and the kind and the item that it has waited for longest."""
        client = min(self._waiting, key=self._seconds)
        self._level = self._had[client]
        kinds = self._waiting[client]
        kind = min(kinds, key=lambda kind: kinds[kind][0][0])
        return client, kind, self._pop(client, kind)

    def take_like(self, kind: Hashable, ahead: float) -> tuple[Hashable, Any] | None:
        """Another item of a kind, if one waits whose client has had at most `ahead` seconds more than others."""
        clients = [client for client, kinds in self._waiting.items() if kind in kinds]
        if not clients:
            return None
        client = min(clients, key=self._seconds)
        if self._had[client] > min(map(self._seconds, self._waiting)) + ahead:
            return None
        return client, self._pop(client, kind)

    def charge(self, client: Hashable, seconds: float) -> None:
        self._had[client] = self._had.get(client, self._level) + seconds

    def expect(self, client: Hashable, until: float) -> None:
        """A client is thought to come back until then (as time.monotonic)."""
        self._expected[client] = until

    def time_to_wait(self, ahead: float) -> float:
        """Seconds for which clients may come back that have had less, by more than `ahead`, than all who wait."""
        now = time.monotonic()
        self._expected = {client: until for client, until in self._expected.items() if until > now}
        least = min(map(self._seconds, self._waiting)) - ahead
        expected = [until for client, until in self._expected.items() if self._had.get(client, least) < least]
        return max(expected, default=now) - now

    def keep(self, client: Hashable, is_wanted: Callable[[Any], bool]) -> None:
        """Drops a client's items that are not wanted."""
        for kind, items in list(self._waiting.get(client, {}).items()):
            wanted = [numbered for numbered in items if is_wanted(numbered[1])]
            self._waiting[client][kind] = collections.deque(wanted)
            self._tidy(client, kind)

    def clear(self) -> list[Any]:
        """All items, which wait no more."""
        items = [item for kinds in self._waiting.values() for queue in kinds.values() for _, item in queue]
        self._waiting.clear()
        return items

    def _seconds(self, client: Hashable) -> float:
        return self._had[client]

    def _pop(self, client: Hashable, kind: Hashable) -> Any:
        _, item = self._waiting[client][kind].popleft()
        self._tidy(client, kind)
        return item

    def _tidy(self, client: Hashable, kind: Hashable) -> None:
        if not self._waiting[client][kind]:
            del self._waiting[client][kind]
        if not self._waiting[client]:
            del self._waiting[client]


class Baton:
    """Lets one thread work at a time, those of different clients in turn, by the CPU time that they take."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = Turns()
        self._is_held = False
        self._began = 0.0

    def take(self, client: Hashable) -> None:
        waiter = threading.Event()
        with self._lock:
            if self._is_held:
                self._turns.put(client, waiter)
            else:
                self._is_held = True
                waiter.set()
        waiter.wait()
        self._began = time.thread_time()

    def give(self, client: Hashable) -> None:
        with self._lock:
            self._turns.charge(client, time.thread_time() - self._began)
            if self._turns:
                self._turns.take()[2].set()
            else:
                self._is_held = False

    def lend(self, client: Hashable) -> None:
        """Lets others go first if the client has held it for long."""
        if self._turns and time.thread_time() - self._began > _LONG:
            self.give(client)
            self.take(client)

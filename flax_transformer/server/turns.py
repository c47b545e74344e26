"""Whose turn it is among clients that wait."""

import collections
import itertools
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

_KNOWN = 10_000  # clients; of more, those that have had least are forgotten
_LONG = 0.005  # seconds
_AT_ONCE = 2  # threads that work
_BACK = 0.25  # seconds in which a client that asks again at once does so


class Turns:
    """What clients wait for, each item of some kind. Whoever has had the least time is next.

    A client that comes back starts level with the others: nobody saves time up (fair queueing by start time, Goyal et
    al. 1996).
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, collections.OrderedDict[int, tuple[Hashable, Any]]] = {}
        self._had: dict[Hashable, float] = {}  # seconds
        self._level = 0.0  # what the client had whose turn it was last
        self._left: dict[Hashable, float] = {}  # when clients last got something
        self._quick: set[Hashable] = set()  # who came back at once the last time
        self._expected: dict[Hashable, float] = {}  # until when clients may come back
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, client: Hashable, item: Any, kind: Hashable = None) -> None:
        if client not in self._waiting:
            is_quick = time.monotonic() - self._left.get(client, -math.inf) < _BACK
            (self._quick.add if is_quick else self._quick.discard)(client)
            if len(self._had) > _KNOWN:
                self._had = {name: had for name, had in self._had.items() if had > self._level or name in self._waiting}
                self._left.clear()
                self._quick.clear()
            self._had[client] = max(self._had.get(client, 0.0), self._level)
            self._waiting[client] = collections.OrderedDict()
        self._waiting[client][next(self._numbers)] = kind, item

    def next_client(self) -> Hashable:
        return self.in_turn()[0]

    def take(self, client: Hashable = None) -> Any:
        """What a client, by default the one whose turn it is, has waited for longest."""
        client = self.next_client() if client is None else client
        self._level = self._had[client]
        return self._pop(client, next(iter(self._waiting[client])))

    def take_like(self, kind: Hashable, beside: set[Hashable], ahead: float) -> Any | None:
        """An item of a kind, if its client has had at most `ahead` seconds more than who waits or is `beside`."""
        least = min(self._had[client] for client in [*self._waiting, *beside])
        for client in self.in_turn():
            if self._had[client] > least + ahead:
                break
            for number, (other, _) in self._waiting[client].items():
                if other == kind:
                    return self._pop(client, number)
        return None

    def drop(self, client: Hashable, is_dropped: Callable[[Any], bool]) -> list[Any]:
        """Takes out, and returns, some of a client's items."""
        numbered = list(self._waiting.get(client, {}).items())
        return [self._pop(client, number) for number, (_, item) in numbered if is_dropped(item)]

    def clear(self) -> list[Any]:
        """All items, which wait no more."""
        items = [item for queue in self._waiting.values() for _, item in queue.values()]
        self._waiting.clear()
        return items

    def charge(self, client: Hashable, seconds: float) -> None:
        self._had[client] = self._had.get(client, self._level) + seconds

    def expect(self, client: Hashable) -> None:
        """A client has what it waited for; one that came back at once may do so again."""
        self._left[client] = time.monotonic()
        if client in self._quick:
            self._expected[client] = self._left[client] + _BACK

    def time_to_wait(self, ahead: float) -> float:
        """Seconds for which clients may come back that have had less, by more than `ahead`, than all who wait."""
        now = time.monotonic()
        self._expected = {client: until for client, until in self._expected.items() if until > now}
        least = self._had[self.in_turn()[0]] - ahead
        expected = [until for client, until in self._expected.items() if self._had.get(client, least) < least]
        return max(expected, default=now) - now

    def in_turn(self) -> list[Hashable]:
        """The clients that wait, who has had least first."""
        return sorted(self._waiting, key=self._had.__getitem__)

    def _pop(self, client: Hashable, number: int) -> Any:
        _, item = self._waiting[client].pop(number)
        if not self._waiting[client]:
            del self._waiting[client]
        return item


class Baton:
    """Lets two threads work at a time, of different clients, those that wait in turn by the CPU time that they take.

    So nobody waits until the long text of one other client is prepared.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = Turns()
        self._began: dict[Hashable, float] = {}  # CPU time of the threads that work, by client

    def take(self, client: Hashable) -> None:
        waiter = threading.Event()
        with self._lock:
            self._turns.put(client, waiter)
            self._pass_on()
        waiter.wait()
        self._began[client] = time.thread_time()

    def give(self, client: Hashable) -> None:
        with self._lock:
            self._turns.charge(client, time.thread_time() - self._began.pop(client))
            self._pass_on()

    def lend(self, client: Hashable) -> None:
        """Lets others go first if the client has held it for long."""
        if self._turns and time.thread_time() - self._began[client] > _LONG:
            self.give(client)
            self.take(client)

    def _pass_on(self) -> None:
        for client in self._turns.in_turn():
            if client not in self._began and len(self._began) < _AT_ONCE:
                self._began[client] = 0.0  # until its thread runs
                self._turns.take(client).set()

"""Keeps out pages of other sites, connections on which nothing comes, and who asks without end for too much."""

import asyncio
import collections
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from uvicorn.protocols.http.h11_impl import H11Protocol

from .fields import Refused

MOST_CONNECTIONS = 1024
_SECONDS_TO_ASK = 10  # the head of a request must have arrived by then
_ADDRESS = re.compile(r'[\d.]+|[\da-f.]*:[\da-f:.]*')
_SAFE = ('GET', 'HEAD', 'OPTIONS')
_REFUSAL = 0.05  # seconds
_MOST_REFUSALS = 64  # a client waits for at once; each has a connection


def check_host(headers: Mapping[str, str], names: Iterable[str]) -> None:
    """Raises Refused for a Host that is none of the names, nor this machine's, nor an address.

    A page whose name was made to lead here (DNS rebinding) has its own name there. Without a Host, as balancers probe
    by HTTP/1.0, it is no page.
    """
    if 'host' not in headers:
        return
    name = _split(f'//{headers["host"]}').hostname or ''
    known = ['localhost', socket.gethostname().lower(), *map(str.lower, names)]
    if name in known or '*' in known or name.endswith('.localhost') or _ADDRESS.fullmatch(name):
        return
    raise Refused(403, f'Host {name[:80]!r} is not served here; if it is this server, start it with --host-name {name}')


def check_site(method: str, headers: Mapping[str, str], allowed: Iterable[str]) -> None:
    """Raises Refused for a request by a page of a site that is not allowed."""
    origin = headers.get('origin', '')
    site = headers.get('sec-fetch-site', '')
    address = _split(origin)
    # No page can claim the scheme of an extension.
    if method in _SAFE or {origin, '*'} & {*allowed} or address.scheme.endswith('-extension'):
        return
    is_own = site in ('same-origin', 'none') if site else not origin or address.netloc == headers.get('host')
    if not is_own:
        raise Refused(403, f'Pages of {origin[:80] or "other sites"} may not ask here; --cors-origins allows a site')


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # such as one bracket
        return urlsplit('')


class Refusals:
    """Lets a client wait for refusals, the longer the more of them wait: it may ask again as soon as it has one."""

    def __init__(self) -> None:
        self._waiting: collections.Counter[str] = collections.Counter()

    async def wait(self, client: str) -> None:
        self._waiting[client] += 1
        try:
            if self._waiting[client] <= _MOST_REFUSALS:
                await asyncio.sleep(_REFUSAL * self._waiting[client])
        finally:
            self._waiting -= collections.Counter([client])


class Protocol(H11Protocol):
    """HTTP whose connections are closed if the client neither sends nor reads, the oldest for another's sake."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_client()
        if len(self.connections) > MOST_CONNECTIONS:
            oldest = next(iter(self._idle))
            oldest._stop_waiting()
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        cycle = self.cycle
        super().handle_events()
        if self.cycle is not cycle:
            self._stop_timer()  # whoever reads the body has another
        if self.cycle and not self.cycle.more_body and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._await_client()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._await_client()
        super().pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.cycle.response_complete:
            self._stop_waiting()

    @property
    def _idle(self) -> dict['Protocol', None]:
        """The connections of this server that wait for their clients, the oldest first."""
        return vars(self.server_state).setdefault('idle', {})

    def _await_client(self) -> None:
        self._stop_timer()
        self._idle[self] = None
        unread = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(_SECONDS_TO_ASK, self._give_up, unread)

    def _give_up(self, unread: int) -> None:
        if 0 < self.transport.get_write_buffer_size() < unread:  # the client is slow, but reads
            self._await_client()
        else:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        self._idle.pop(self, None)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

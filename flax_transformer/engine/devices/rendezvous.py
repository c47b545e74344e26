"""Checks, before JAX starts, that all processes of a run have come and are about to train the same thing.

JAX's own start aborts if a process is missing, without saying which. So process 0 first listens on the coordinator's
port. Each of the others says who it is and what it is about to train, and gets back what is wrong, if anything. All
processes fail with the same message.

Anybody may connect to that port. What comes from an end that does not know the run directory's secret (`handshake`) is
dropped; it can neither abort the launch nor delay it.
"""

import asyncio
import contextlib
import ipaddress
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices.handshake import Channel, StrangerError, WrongSecretError
from flax_transformer.engine.runs.launch_secret import remove_secret, shared_secret

Facts = dict[str, Any]  # what must be equal in all processes, by name; JSON values

_PATIENCE = 10.0  # seconds in which the other end must have proved itself and sent its facts
_MOST_STRANGERS = 128  # connections at once that have not; at one more, the oldest is dropped
_LINE = 64 * 1024  # bytes of a line, or four times this process's own if that is longer
_MOST_NAMES = 16  # of processes in a message


def meet(address: str, process: int, num_processes: int, facts: Facts, timeout: float, folder: Path) -> None:
    """Returns when all processes have come with the same facts and the secret of the run directory `folder`.

    Raises UserError, which names the process, if one is missing after `timeout` seconds, differs, or came twice.
    """
    facts = json.loads(json.dumps(facts))  # as the other processes' arrive
    own = {'process': process, 'of': num_processes, 'host': socket.gethostname(), 'pid': os.getpid(), 'facts': facts}
    shared_secret(folder)  # an unusable folder is an error at once
    if process == 0:
        try:
            wrong = asyncio.run(_receive(address, own, timeout, folder))
        finally:
            remove_secret(folder)
    else:
        wrong = asyncio.run(_ask(address, own, timeout, folder))
    if wrong:
        raise UserError(wrong)


def listening_address(address: str) -> str:
    """IP:PORT where process 0 is to listen for connections to HOST:PORT; '': on all of its interfaces.

    All of them if the host's name stands for several addresses, for none of this machine's, or for the loopback
    interface (Debian's /etc/hosts maps a machine's own name there), or if JAX's own setting says where.
    """
    if 'JAX_COORDINATOR_BIND_ADDRESS' in os.environ:
        return ''
    host, port = _split(address)
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return ''
    local = sorted(ip for ip in found if ipaddress.ip_address(ip.partition('%')[0]).is_loopback)
    if local and host != 'localhost' and host not in local:
        return ''
    ip = local[0] if local else found.pop() if len(found) == 1 else ''
    if not ip:
        return ''
    try:
        socket.create_server((ip, 0), family=_family(ip)).close()
    except OSError:
        return ''
    return f'[{ip}]:{port}' if ':' in ip else f'{ip}:{port}'


def _listen(address: str, backlog: int) -> socket.socket:
    """A server socket. Raises UserError if another process listens there."""
    host, port = _split(listening_address(address) or f':{_split(address)[1]}')
    try:
        if host:
            return socket.create_server((host, port), family=_family(host), backlog=backlog)
        with contextlib.suppress(OSError):
            if socket.has_dualstack_ipv6():
                return socket.create_server(('', port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        return socket.create_server(('', port), backlog=backlog)
    except OSError as error:
        raise UserError(
            f'process 0 cannot listen at {address}: {error.strerror}; end the process that does, if another one does, '
            'or give another port in parallel.coordinator'
        ) from None


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(':')
    return host.removeprefix('[').removesuffix(']'), int(port)


def _family(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ':' in ip else socket.AF_INET


def _limit(own: Facts) -> int:
    return max(_LINE, 4 * len(json.dumps(own)))


class _Meeting:
    """Process 0's list of who has come, and what is wrong, if anything."""

    def __init__(self, own: Facts, folder: Path) -> None:
        self.own, self.folder = own, folder
        self.came: dict[int, Facts] = {0: own}
        self.wrong = ''
        self.is_over = asyncio.Event()
        self.num_wrong_secrets = 0
        self.channels: dict[int, Channel] = {}
        self._refused: list[Channel] = []  # of processes whose number is taken
        self._strangers: dict[asyncio.Task, None] = {}  # oldest first

    async def admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a new connection until it has proved itself and said who it is; drops it if it does not."""
        task, channel = asyncio.current_task(), Channel(reader, writer)
        self._strangers[task] = None
        if len(self._strangers) > _MOST_STRANGERS:
            next(iter(self._strangers)).cancel()
        try:
            async with asyncio.timeout(_PATIENCE):
                await channel.accept(shared_secret(self.folder))
                other = _checked(await channel.receive())
        except (StrangerError, UserError, OSError, TimeoutError, asyncio.CancelledError) as error:
            self.num_wrong_secrets += isinstance(error, WrongSecretError)
            channel.abort()
        else:
            self._add(other, channel)
        finally:
            del self._strangers[task]

    def _add(self, other: Facts, channel: Channel) -> None:
        number = other['process']
        if number in self.came or len(self.came) == self.own['of'] - 1:
            self.drop_gone()
        if number in self.came:
            who, first = _who(other), _who(self.came[number])
            self.wrong = f'{who} came, but {first} is process {number} already; give each its own'
            self._refused.append(channel)
        else:
            self.came[number], self.channels[number] = other, channel
            self.wrong = self.wrong or _difference(self.own, other)
        if self.wrong or len(self.came) == self.own['of']:
            self.is_over.set()

    def drop_gone(self) -> None:
        """Forgets processes whose connection has ended; they may come again."""
        for number in [number for number, channel in self.channels.items() if channel.is_closed]:
            self.channels.pop(number).abort()
            del self.came[number]

    async def answer(self) -> None:
        """Says to all that have come what is wrong."""
        channels = [*self.channels.values(), *self._refused]
        for channel in channels:
            channel.send(self.wrong)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*(channel.close() for channel in channels), return_exceptions=True)

    async def drop_strangers(self) -> None:
        await asyncio.sleep(0)  # those that have just come are served from then on
        strangers = list(self._strangers)
        for stranger in strangers:
            stranger.cancel()
        await asyncio.gather(*strangers)
        await asyncio.sleep(0)  # their connections close


async def _receive(address: str, own: Facts, timeout: float, folder: Path) -> str:
    if own['of'] == 1:
        return ''
    meeting = _Meeting(own, folder)
    opened = _listen(address, backlog=max(own['of'], _MOST_STRANGERS))
    server = await asyncio.start_server(meeting.admit, sock=opened, limit=_limit(own))
    try:
        async with asyncio.timeout(timeout):
            await meeting.is_over.wait()
    except TimeoutError:
        meeting.drop_gone()
        meeting.wrong = meeting.wrong or _who_is_missing(meeting, timeout)
    server.close()
    await meeting.answer()
    await meeting.drop_strangers()
    return meeting.wrong


async def _ask(address: str, own: Facts, timeout: float, folder: Path) -> str:
    host, port = _split(address)
    deadline = time.monotonic() + timeout
    what = 'cannot be reached'  # '': its secret is another one
    while time.monotonic() < deadline:
        channel = None
        try:
            async with asyncio.timeout(min(_PATIENCE, max(deadline - time.monotonic(), 1))):
                channel = Channel(*await asyncio.open_connection(host, port, limit=_limit(own)))
                await channel.call(shared_secret(folder))
            channel.send(own)
            what = 'listens but does not answer'
            async with asyncio.timeout(max(deadline - time.monotonic(), 1) + _PATIENCE):
                return str(await channel.receive())
        except WrongSecretError:
            what = ''
        except (StrangerError, OSError, TimeoutError):
            pass
        finally:
            if channel:
                channel.abort()
        await asyncio.sleep(0.1)
    if not what:
        return (
            f'process 0 at {address} does not know the secret in {folder} (tried for {timeout:.0f} s); give --workdir '
            'a folder that all hosts share, the same in all processes, and a port that nothing else uses'
        )
    return (
        f'process 0 {what} at {address} within {timeout:.0f} s; start it, see that parallel.coordinator names its '
        'host and that the port is open, or raise parallel.process_timeout'
    )


def _checked(other: Any) -> Facts:
    """What another process says of itself. Raises StrangerError if it is not of that form."""
    types = {'process': int, 'of': int, 'host': str, 'pid': int, 'facts': dict}
    if not isinstance(other, dict) or {name: type(value) for name, value in other.items()} != types:
        raise StrangerError
    if not 0 < other['process'] < other['of']:
        raise StrangerError
    return other


def _who_is_missing(meeting: _Meeting, timeout: float) -> str:
    of, came = meeting.own['of'], meeting.came
    missing = [str(i) for i in range(of) if i not in came]
    strangers = ''
    if meeting.num_wrong_secrets:
        strangers = (
            f' {meeting.num_wrong_secrets} connections came with the secret of another run directory than '
            f'{meeting.folder}: it must be one folder that all hosts share.'
        )
    return (
        f'process{"es" if len(missing) > 1 else ""} {_some(missing)} of {of} did not come within '
        f'{timeout:.0f} s; here are {_some([_who(one) for one in came.values()])}.{strangers} Start all of them, with '
        'the same coordinator, or raise parallel.process_timeout'
    )


def _some(names: list[str]) -> str:
    more = f' and {len(names) - _MOST_NAMES} more' if len(names) > _MOST_NAMES else ''
    return ', '.join(names[:_MOST_NAMES]) + more


def _difference(own: Facts, other: Facts) -> str:
    """How another process's facts differ, a line for each name."""
    if own['of'] != other['of']:
        return f'{_who(other)} is one of {other["of"]} processes, {_who(own)} one of {own["of"]}; expected the same'
    ours, theirs = own['facts'], other['facts']
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not names:
        return ''
    lines = [f'  {name}: {theirs.get(name)!r} there, {ours.get(name)!r} in process 0' for name in names]
    return f'{_who(other)} is not about to do the same as process 0:\n' + '\n'.join(lines)


def _who(one: Facts) -> str:
    return f'process {one["process"]} ({one["host"]}, pid {one["pid"]})'

"""Says, before JAX starts, which process of a run is missing or is about to do something else.

Process 0 listens on the coordinator's port. Each of the others sends a line, who it is and what it is about to do, and
gets one back: what is wrong, if anything. Whatever else connects to the port is ignored. The connections stay open: one
that ends later says, at once, that its process has.
"""

import contextlib
import json
import os
import socket
import time
from multiprocessing.connection import wait
from typing import Any

from flax_transformer.common.errors import UserError

LOCAL = ('localhost', '127.0.0.1')  # hosts that no other machine can call
_PATIENCE = 5.0  # seconds for a connection and for a line from it
Facts = dict[str, Any]  # what must be equal in all processes, by name; JSON values
Connections = dict[str, socket.socket]


def call_roll(host: str, port: int, process: int, count: int, facts: Facts, timeout: float) -> Connections:
    """Waits until all `count` processes have come with the same facts. Raises UserError, which names who has not.

    Returns the open connections by the number of the process at the other end.
    """
    who = f'process {process} ({socket.gethostname()}, pid {os.getpid()})'
    own = {'number': process, 'who': who, 'facts': {'parallel.num_processes': count} | facts}
    own = json.loads(json.dumps(own))  # a tuple becomes a list, as in what the others send
    meet = _answer if process == 0 else _report
    wrong, connections = meet(host, port, own, count, timeout)
    if wrong:
        for connection in connections.values():
            connection.close()
        raise UserError(wrong)
    return connections


def has_hung_up(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _answer(host: str, port: int, own: Facts, count: int, timeout: float) -> tuple[str, Connections]:
    """Process 0's part: sends what is wrong to all that came, and returns it with their connections."""
    callers: dict[socket.socket, Facts] = {}
    deadline = time.monotonic() + timeout
    wrong = ''
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(_listen(host, port, count))
        while not wrong and len(callers) < count - 1:
            if (left := deadline - time.monotonic()) < 0:
                wrong = _who_is_missing([own, *callers.values()], count, timeout)
            ready = wait([server, *callers], left)
            for connection in callers.keys() & ready:
                del callers[connection]  # it had nothing more to say, so it has hung up
            if server in ready:
                with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
                    connection = opened.enter_context(server.accept()[0])
                    connection.settimeout(_PATIENCE)
                    other = json.loads(connection.makefile().readline())
                    if isinstance(other, dict) and other.keys() == own.keys():
                        wrong = wrong or _what_differs(other, [own, *callers.values()])
                        callers[connection] = other

        for connection in callers:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(wrong).encode() + b'\n')
        return wrong, {str(caller['number']): connection.dup() for connection, caller in callers.items()}


def _report(host: str, port: int, own: Facts, count: int, timeout: float) -> tuple[str, Connections]:
    """The part of the others: returns what process 0 says is wrong, and the connection to it."""
    deadline = time.monotonic() + timeout
    what = 'cannot be reached'
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(OSError, ValueError), socket.create_connection((host, port), _PATIENCE) as connection:
            connection.sendall(json.dumps(own).encode() + b'\n')
            what = 'listens but does not answer'
            connection.settimeout(left + _PATIENCE)
            wrong = str(json.loads(connection.makefile().readline()))
            return wrong, {'0': connection.dup()}
        time.sleep(0.1)
    hint = 'see that parallel.coordinator names its host and that the port is open, or raise parallel.process_timeout'
    return f'process 0 {what} at {host}:{port} within {timeout:.0f} s; start it, {hint}', {}


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    try:
        if host in LOCAL or not socket.has_dualstack_ipv6():
            return socket.create_server((host if host in LOCAL else '', port), backlog=backlog)
        return socket.create_server(('', port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    except OSError as error:
        hint = 'stop whatever else listens there, if anything, or give another port in parallel.coordinator'
        raise UserError(f'process 0 cannot listen at {host}:{port}: {error.strerror}; {hint}') from None


def _what_differs(new: Facts, known: list[Facts]) -> str:
    for other in known:
        if other['number'] == new['number']:
            return f'{new["who"]} came, but {other["who"]} is process {new["number"]} already; give each its own'

    ours = known[0]['facts']
    theirs = new['facts']
    lines = [
        f'\n  {name}: {theirs.get(name)!r} there, {ours.get(name)!r} in process 0'
        for name in ours | theirs
        if ours.get(name) != theirs.get(name)
    ]
    return f'{new["who"]} is not about to do the same as process 0:{"".join(lines)}' if lines else ''


def _who_is_missing(here: list[Facts], count: int, timeout: float) -> str:
    missing = sorted(set(range(count)) - {process['number'] for process in here})
    names = f'process{"es" if len(missing) > 1 else ""} {", ".join(map(str, missing))} of {count}'
    present = ', '.join(process['who'] for process in here)
    hint = 'Start all of them, with the same coordinator, or raise parallel.process_timeout'
    return f'{names} did not come within {timeout:.0f} s; here are {present}. {hint}'

"""Checks, before JAX starts, that all processes of a run have come and are about to train the same thing.

JAX's own start aborts if a process is missing, without saying which. So process 0 first listens on the coordinator's
port. Each of the others sends one line of JSON, who it is and what it is about to train, and gets back what is wrong,
if anything. All processes fail with the same message.
"""

import contextlib
import json
import os
import socket
import time
from typing import Any

from flax_transformer.common.errors import UserError

Facts = dict[str, Any]  # what must be equal in all processes, by name; JSON values


def meet(address: str, process: int, num_processes: int, facts: Facts, timeout: float) -> None:
    """Returns when all processes have come with the same facts.

    Raises UserError, which names the process, if one is missing after `timeout` seconds, differs, or came twice.
    """
    facts = json.loads(json.dumps(facts))  # as the other processes' arrive
    own = {'process': process, 'of': num_processes, 'host': socket.gethostname(), 'pid': os.getpid(), 'facts': facts}
    host, _, port = address.rpartition(':')
    deadline = time.monotonic() + timeout
    if process == 0:
        wrong = _receive(int(port), num_processes, own, deadline, timeout)
    else:
        wrong = _ask(host, int(port), own, deadline, timeout)
    if wrong:
        raise UserError(wrong)


def _receive(port: int, num_processes: int, own: Facts, deadline: float, timeout: float) -> str:
    came: dict[int, Facts] = {0: own}
    wrong = ''
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.create_server(('', port), backlog=num_processes))
        connections = []
        while len(came) < num_processes and not wrong:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection = opened.enter_context(server.accept()[0])
            except TimeoutError:
                wrong = _who_is_missing(came, num_processes, timeout)
                break
            try:
                connection.settimeout(5)
                with connection.makefile('r') as lines:
                    other = json.loads(lines.readline())
                number = int(other['process'])
            except (ValueError, LookupError, TypeError, OSError):
                continue  # a stranger's connection
            connections.append(connection)
            if number in came:
                wrong = f'{_who(other)} came, but {_who(came[number])} is process {number} already; give each its own'
            else:
                came[number] = other
                wrong = _difference(own, other)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(wrong).encode() + b'\n')
    return wrong


def _ask(host: str, port: int, own: Facts, deadline: float, timeout: float) -> str:
    answered = False
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=1) as connection:
                answered = True
                connection.sendall(json.dumps(own).encode() + b'\n')
                connection.settimeout(max(deadline - time.monotonic(), 1) + 5)
                with connection.makefile('r') as lines:
                    line = lines.readline()
                if line:
                    return json.loads(line)
        except OSError:
            pass
        time.sleep(0.1)
    what = 'listens but does not answer' if answered else 'cannot be reached'
    return (
        f'process 0 {what} at {host}:{port} within {timeout:.0f} s; start it, see that parallel.coordinator names its '
        'host and that the port is open, or raise parallel.process_timeout'
    )


def _who_is_missing(came: dict[int, Facts], num_processes: int, timeout: float) -> str:
    missing = [str(i) for i in range(num_processes) if i not in came]
    return (
        f'process{"es" if len(missing) > 1 else ""} {", ".join(missing)} of {num_processes} did not come within '
        f'{timeout:.0f} s; here are {", ".join(map(_who, came.values()))}. Start all of them, with the same '
        'coordinator, or raise parallel.process_timeout'
    )


def _difference(own: Facts, other: Facts) -> str:
    """How another process's facts differ, a line for each name."""
    if own['of'] != other['of']:
        return f'{_who(other)} is one of {other["of"]} processes, {_who(own)} one of {own["of"]}; expected the same'
    names = [name for name in {**own['facts'], **other['facts']} if own['facts'].get(name) != other['facts'].get(name)]
    if not names:
        return ''
    lines = [f'  {name}: {other["facts"].get(name)!r} there, {own["facts"].get(name)!r} in process 0' for name in names]
    return f'{_who(other)} is not about to do the same as process 0:\n' + '\n'.join(lines)


def _who(one: Facts) -> str:
    return f'process {one["process"]} ({one["host"]}, pid {one["pid"]})'

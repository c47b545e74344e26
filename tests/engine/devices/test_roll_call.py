"""Before JAX starts, process 0 hears from all the others, and whatever else connects to its port changes nothing."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from launches import free_port

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices import roll_call
from flax_transformer.engine.devices.roll_call import call_roll


@contextlib.contextmanager
def process_0(host: str = '127.0.0.1', count: int = 2) -> Iterator[int]:
    """The port at which it waits; at the end process 1 comes, and they must go on together."""
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call_roll, host, port, 0, count, {}, 30.0)
        try:
            yield port
        finally:
            closed(call_roll(host, port, 1, count, {}, 30.0))
            closed(first.result())


def closed(connections: dict[str, socket.socket]) -> None:
    for connection in connections.values():
        connection.close()


def connect(port: int) -> socket.socket:
    for _ in range(200):
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(('127.0.0.1', port), timeout=20)
        time.sleep(0.02)
    raise AssertionError(f'nobody listens at {port}')


@pytest.mark.parametrize('host', ['127.0.0.1', 'localhost', '::1', socket.gethostname()])
@pytest.mark.parametrize('has_ipv6', [True, False])
def test_processes_meet_by_any_name_of_the_host(host: str, has_ipv6: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if host == '::1' and not (has_ipv6 and socket.has_dualstack_ipv6()):
        pytest.skip('no IPv6')
    monkeypatch.setattr(roll_call.socket, 'has_dualstack_ipv6', lambda: has_ipv6)
    with process_0(host):
        pass


@pytest.mark.parametrize(
    'said',
    [b'', b'\n', b'GET / HTTP/1.0\r\n\r\n', b'{"number": 1}\n', b'[' * 100_000 + b'\n', bytes(range(256))],
    ids=lambda said: repr(said[:15]),
)
def test_what_is_no_process_of_ours_is_ignored(said: bytes) -> None:
    with process_0() as port, connect(port) as stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)


def test_a_silent_connection_delays_a_launch_by_seconds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_call, '_PATIENCE', 0.2)
    with contextlib.ExitStack() as opened, process_0() as port:
        opened.enter_context(connect(port))


def test_one_that_died_while_it_waited_may_be_started_again() -> None:
    """As a scheduler does, under the same number."""
    with process_0(count=2 + 1) as port:
        with connect(port) as died:
            died.sendall(json.dumps({'number': 2, 'who': 'process 2', 'facts': {'parallel.num_processes': 3}}).encode())
            died.sendall(b'\n')
        again = ThreadPoolExecutor(1).submit(call_roll, '127.0.0.1', port, 2, 3, {}, 30.0)
    closed(again.result())


def test_facts_of_any_length_are_compared_as_json() -> None:
    facts: list[dict[str, Any]] = [{'betas': (1, 2), 'corpora': 'x' * 200_000}, {'betas': [1, 2], 'corpora': 'y'}]
    port, learned = free_port(), []

    def one(number: int) -> None:
        with pytest.raises(UserError) as caught:
            call_roll('127.0.0.1', port, number, 2, facts[number], 30.0)
        learned.append(str(caught.value))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(2)))
    assert learned[0] == learned[1]
    assert "process 0:\n  corpora: 'y' there, 'xx" in learned[0]

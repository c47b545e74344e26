"""Processes meet before JAX starts: honest ones learn what differs, and strangers on the port change nothing."""

import asyncio
import contextlib
import json
import os
import random
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices import rendezvous
from flax_transformer.engine.devices.handshake import Channel, StrangerError, WrongSecretError
from flax_transformer.engine.devices.rendezvous import listening_address, meet
from flax_transformer.engine.runs.launch_secret import remove_secret, shared_secret

NONCE = 65  # bytes: all that a stranger gets


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(('127.0.0.1', 0))
        return any_socket.getsockname()[1]


def meet_all(
    folder: Path, facts: list[dict[str, Any]], *, of: int | None = None, numbers: list[int] | None = None
) -> list[str]:
    """What each of some processes learns, as threads; '': all is well."""
    address, learned = f'127.0.0.1:{free_port()}', [''] * len(facts)
    timeout = 60.0 if of is None else 2.0  # where some are missing

    def one(i: int) -> None:
        try:
            meet(address, (numbers or range(len(facts)))[i], of or len(facts), facts[i], timeout, folder)
        except UserError as error:
            learned[i] = str(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(facts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return learned


def test_processes_with_the_same_facts_meet_and_leave_an_empty_folder(tmp_path: Path) -> None:
    assert meet_all(tmp_path / 'run', [{'a': (1, 2), 'b': None}] * 3) == ['', '', '']
    assert list((tmp_path / 'run').iterdir()) == []


def test_one_that_is_about_to_do_something_else_is_named_to_all(tmp_path: Path) -> None:
    learned = meet_all(tmp_path, [{'model.d_model': 8, 'seed': 1}, {'model.d_model': 16, 'seed': 1}])
    assert learned[0] == learned[1]
    assert 'process 1 (' in learned[0]
    assert learned[0].endswith('model.d_model: 16 there, 8 in process 0')


def test_facts_longer_than_a_line_may_be_are_compared_too(tmp_path: Path) -> None:
    learned = meet_all(tmp_path, [{'corpora': 'x' * 200_000}, {'corpora': 'x' * 200_000 + 'y'}])
    assert learned[0] == learned[1]
    assert "y' there, 'xx" in learned[0]


def test_missing_processes_are_named_to_those_that_are_there(tmp_path: Path) -> None:
    learned = meet_all(tmp_path, [{}, {}], of=4, numbers=[0, 2])
    assert learned[0] == learned[1]
    assert 'processes 1, 3 of 4 did not come within 2 s; here are process 0 (' in learned[0]
    assert 'secret' not in learned[0]


def test_without_process_0_the_others_say_where_they_looked(tmp_path: Path) -> None:
    (learned,) = meet_all(tmp_path, [{}], of=2, numbers=[1])
    assert 'process 0 cannot be reached at 127.0.0.1:' in learned


def test_a_number_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    learned = meet_all(tmp_path, [{}] * 3, of=4, numbers=[0, 1, 1])
    assert 'is process 1 already; give each its own' in learned[0]
    assert learned == [learned[0]] * 3


def test_another_run_directory_is_named_as_the_cause(tmp_path: Path) -> None:
    """As on hosts that do not share a file system, or with another --workdir."""
    port, learned = free_port(), ['', '']

    def one(i: int) -> None:
        with pytest.raises(UserError) as error:
            meet(f'127.0.0.1:{port}', i, 2, {}, 1.5, tmp_path / str(i))
        learned[i] = str(error.value)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(2)))
    assert f'connections came with the secret of another run directory than {tmp_path / "0"}' in learned[0]
    assert f'does not know the secret in {tmp_path / "1"} (tried for 2 s); give --workdir' in learned[1]


def test_a_port_in_use_is_an_error_of_the_user(tmp_path: Path) -> None:
    with socket.create_server(('127.0.0.1', 0)) as other:
        address = f'127.0.0.1:{other.getsockname()[1]}'
        with pytest.raises(UserError, match=f'cannot listen at {address}'):
            meet(address, 0, 2, {}, 1.0, tmp_path)


def test_one_that_was_killed_while_it_waited_may_come_again(tmp_path: Path) -> None:
    """A scheduler restarts it under the same number before the last one has come."""
    address = f'127.0.0.1:{free_port()}'
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(meet, address, 0, 3, {}, 10.0, tmp_path)
        asyncio.run(leave_after_meeting(address, tmp_path))
        rest = [pool.submit(meet, address, i, 3, {}, 10.0, tmp_path) for i in (1, 2)]
        assert [each.result() for each in (first, *rest)] == [None] * 3


async def leave_after_meeting(address: str, folder: Path) -> None:
    host, port = address.split(':')
    while True:
        with contextlib.suppress(OSError):
            channel = Channel(*await asyncio.open_connection(host, int(port)))
            await channel.call(shared_secret(folder))
            channel.send({'process': 1, 'of': 3, 'host': 'h', 'pid': 1, 'facts': {}})
            await channel.close()
            return
        await asyncio.sleep(0.05)


@contextlib.contextmanager
def process_0(folder: Path, of: int = 2, timeout: float = 60.0) -> Iterator[str]:
    """The address of a launch that waits for process 1, which comes at the end: they must meet."""
    port = free_port()
    address = f'127.0.0.1:{port}'
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(meet, address, 0, of, {'secret path': '/home'}, timeout, folder)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port)):
                    break
                time.sleep(0.02)
            yield address
        finally:
            meet(address, 1, of, {'secret path': '/home'}, 30.0, folder)
            first.result()


def say(address: str, said: bytes, *, wait: bool = True) -> bytes:
    """What a stranger who says this gets back."""
    host, port = address.split(':')
    with socket.create_connection((host, int(port)), timeout=20) as stranger:
        with contextlib.suppress(OSError):
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
        heard = b''
        with contextlib.suppress(ConnectionError):
            while wait and (more := stranger.recv(4096)):
                heard += more
        return heard


HONEST = {'process': 1, 'of': 2, 'host': 'h', 'pid': 7, 'facts': {}}
CODE = b'0' * 64


@pytest.mark.parametrize(
    'said',
    [
        b'',
        b'\n',
        b'GET / HTTP/1.0\r\n\r\n',
        json.dumps(HONEST).encode() + b'\n',  # the protocol of an earlier version, which aborted the launch
        b'{"process": 1}\n',
        b'[' * 100_000 + b'\n',
        b'x' * 1_000_000,
        CODE + b' ' + CODE + b'\n' + CODE + b' ' + json.dumps(HONEST).encode() + b'\n',
        CODE + b' ' + 'é'.encode('latin-1') * 64 + b'\n',
        bytes(range(256)),
    ],
    ids=lambda said: repr(said[:20]),
)
def test_a_stranger_gets_a_nonce_and_changes_nothing(said: bytes, tmp_path: Path) -> None:
    with process_0(tmp_path) as address:
        assert len(say(address, said)) in (0, NONCE)


def test_silent_strangers_do_not_delay_a_launch(tmp_path: Path) -> None:
    began = time.monotonic()
    with contextlib.ExitStack() as opened, process_0(tmp_path) as address:
        host, port = address.split(':')
        for _ in range(rendezvous._MOST_STRANGERS + 50):
            opened.enter_context(socket.create_connection((host, int(port))))
    assert time.monotonic() - began < rendezvous._PATIENCE


def any_json(rng: random.Random, depth: int = 0) -> Any:
    values = [None, True, -1, 0, 1, 2, 10**30, 1.5, float('nan'), float('-inf'), '', 'é\ud800', '1', [], {}]
    kind = rng.random()
    if depth > 3 or kind < 0.6:
        return rng.choice(values)
    if kind < 0.8:
        return [any_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice([*HONEST, 'x']): any_json(rng, depth + 1) for _ in range(rng.randrange(7))}


def damaged(rng: random.Random) -> Any:
    """A message in which one field has another value, or is missing, or is one too many; or something else."""
    if rng.random() < 0.2:
        return any_json(rng)
    message = dict(HONEST)
    name = rng.choice([*HONEST, 'x'])
    if rng.random() < 0.2:
        message.pop(name, None)
    else:
        message[name] = any_json(rng)
    return message


def anything(rng: random.Random) -> bytes:
    """What a stranger may send: noise, damaged messages, lines of our protocol in part."""
    lines = []
    for _ in range(rng.randrange(1, 4)):
        body = json.dumps(damaged(rng)).encode() if rng.random() < 0.5 else rng.randbytes(rng.randrange(200))
        head = rng.choice([b'', CODE + b' ', rng.randbytes(32).hex().encode() + b' ', CODE + b' ' + CODE + b' '])
        lines.append(head + body)
    return rng.choice([b'\n', b'\n', b'\r\n', b'\0', b' ']).join(lines) + rng.choice([b'', b'\n'])


@pytest.mark.parametrize('count', [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_input_of_strangers_aborts_or_delays_a_launch(count: int, tmp_path: Path) -> None:
    rng = random.Random(0)
    with process_0(tmp_path, timeout=600.0) as address:
        for _ in range(count):
            assert len(say(address, anything(rng), wait=rng.random() < 0.9)) in (0, NONCE)


@pytest.mark.parametrize('count', [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_message_of_one_that_knows_the_secret_crashes_a_launch(count: int, tmp_path: Path) -> None:
    """Only such as a process of ours could send count as one: the others are dropped."""
    rng = random.Random(1)

    async def send_all(address: str) -> None:
        host, port = address.split(':')
        for _ in range(count):
            message = damaged(rng)
            with contextlib.suppress(StrangerError):
                rendezvous._checked(json.loads(json.dumps(message)))
                continue  # harmless: another pid, or another name of the host
            channel = Channel(*await asyncio.open_connection(host, int(port)))
            await channel.call(shared_secret(tmp_path))
            channel.send(message)
            with pytest.raises((StrangerError, ConnectionError)):
                await channel.receive()
            channel.abort()

    with process_0(tmp_path, timeout=600.0) as address:
        asyncio.run(send_all(address))


@pytest.mark.parametrize(
    'field',
    [
        {'process': True},
        {'process': 0},
        {'process': -1},
        {'process': 2},
        {'process': 1.0},
        {'process': '1'},
        {'of': False},
        {'pid': None},
        {'host': 3},
        {'facts': []},
        {'x': 1},
    ],
)
def test_a_message_of_another_form_is_refused(field: dict[str, Any]) -> None:
    assert rendezvous._checked(HONEST) == HONEST
    with pytest.raises(StrangerError):
        rendezvous._checked(HONEST | field)


@contextlib.asynccontextmanager
async def connected(secret: bytes, other: bytes) -> Any:
    """Two ends of a connection, after their handshake, or the errors with which it ended."""
    ends: list[Any] = [None, None]
    opened: list[Channel] = []
    is_done = asyncio.Event()

    async def accept(*streams: Any) -> None:
        ends[0] = channel = Channel(*streams)
        opened.append(channel)
        try:
            await channel.accept(secret)
        except StrangerError as error:
            channel.abort()
            ends[0] = error
        is_done.set()

    server = await asyncio.start_server(accept, '127.0.0.1', 0)
    ends[1] = channel = Channel(*await asyncio.open_connection(*server.sockets[0].getsockname()))
    try:
        await channel.call(other)
    except StrangerError as error:
        ends[1] = error
    await is_done.wait()
    yield ends
    for each in (channel, *opened):
        each.abort()
    server.close()
    await asyncio.sleep(0)


def test_both_ends_must_know_the_secret() -> None:
    async def run() -> None:
        async with connected(b'one', b'two') as (listens, calls):
            assert isinstance(listens, WrongSecretError)
            assert isinstance(calls, WrongSecretError)
        async with connected(b'one', b'one') as (listens, calls):
            calls.send({'a': [1]})
            calls.send('second')
            assert [await listens.receive(), await listens.receive()] == [{'a': [1]}, 'second']

    asyncio.run(run())


@pytest.mark.parametrize('attack', ['altered', 'again', 'reflected'])
def test_lines_cannot_be_altered_repeated_or_reflected(attack: str) -> None:
    async def run() -> None:
        async with connected(b'one', b'one') as (listens, calls):
            sent: list[bytes] = []
            write, calls._writer.write = calls._writer.write, sent.append
            calls.send([1])
            if attack == 'altered':
                write(sent[0].replace(b'[1]', b'[2]'))
            elif attack == 'again':
                write(sent[0] * 2)
                await listens.receive()
            else:
                listens._writer.write(sent[0])
            with pytest.raises(StrangerError):
                await (calls if attack == 'reflected' else listens).receive()
            calls._writer.write = write

    asyncio.run(run())


def test_an_impostor_at_the_address_learns_nothing(tmp_path: Path) -> None:
    """Something else listens where process 0 is expected: the config is not sent to it."""
    heard = []

    def listen(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            connection.sendall(CODE + b'\n')
            with connection.makefile('rb') as lines:
                heard.append(lines.readline())
                connection.sendall(CODE + b'\n')
                heard.append(lines.read())

    with socket.create_server(('127.0.0.1', 0)) as server, ThreadPoolExecutor(1) as pool:
        done = pool.submit(listen, server)
        with pytest.raises(UserError, match='does not know the secret'):
            meet(f'127.0.0.1:{server.getsockname()[1]}', 1, 2, {'path': '/home'}, 0.5, tmp_path)
        done.result()
    assert [len(said) for said in heard] == [64 + 1 + 64 + 1, 0]


def test_the_secret_is_one_however_many_come_first(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: shared_secret(tmp_path / 'a' / 'run'), range(64)))
    (secret,) = found
    file = tmp_path / 'a' / 'run' / 'rendezvous'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(secret) == 65
    remove_secret(tmp_path / 'a' / 'run')
    assert list(file.parent.iterdir()) == []  # a folder that the user may have made, such as a mount point
    assert shared_secret(tmp_path) != secret


def test_a_secret_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, 'sleep', lambda _: None)
    (tmp_path / 'link').mkdir()
    (tmp_path / 'link' / 'rendezvous').symlink_to(__file__)
    (tmp_path / 'file').write_text('')
    (tmp_path / 'short').mkdir()
    (tmp_path / 'short' / 'rendezvous').write_text('abc\n')
    (tmp_path / 'pipe').mkdir()
    os.mkfifo(tmp_path / 'pipe' / 'rendezvous')
    for folder, expected in (('link', 'symbolic'), ('file', 'File exists'), ('short', 'damaged'), ('pipe', 'damaged')):
        with pytest.raises(UserError, match=expected):
            shared_secret(tmp_path / folder)


@pytest.mark.parametrize(
    ('host', 'found', 'expected'),
    [
        ('127.0.0.1', ['127.0.0.1'], '127.0.0.1:9911'),
        ('localhost', ['::1', '127.0.0.1'], '127.0.0.1:9911'),
        ('node0', ['127.0.1.1'], ''),  # Debian's /etc/hosts: no other host would reach it there
        ('node0', ['192.0.2.1'], ''),  # not an address of this machine
        ('node0', ['192.0.2.1', '192.0.2.2'], ''),
        ('node0', [], ''),
    ],
)
def test_it_listens_only_where_the_others_will_call(
    host: str, found: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(*_: Any, **__: Any) -> list[Any]:
        if not found:
            raise socket.gaierror
        return [(None, None, None, '', (ip, 9911)) for ip in found]

    monkeypatch.setattr(rendezvous.socket, 'getaddrinfo', look_up)
    assert listening_address(f'{host}:9911') == expected


@pytest.mark.parametrize('has_ipv6', [True, False])
def test_where_jax_is_to_listen_elsewhere_the_rendezvous_listens_everywhere(
    has_ipv6: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('JAX_COORDINATOR_BIND_ADDRESS', '0.0.0.0:9911')
    monkeypatch.setattr(rendezvous.socket, 'has_dualstack_ipv6', lambda: has_ipv6)
    assert listening_address('127.0.0.1:9911') == ''
    with process_0(tmp_path) as address:
        assert address.startswith('127.0.0.1:')

"""Requests as the bytes that a client sends, which may be none of HTTP's."""

import asyncio
import json
import random
from typing import Any

KEY = 'a key'


def request(
    path: str,
    body: bytes | dict[str, Any] = b'',
    *,
    method: str = 'POST',
    key: str = KEY,
    length: int = -1,
    kind: str = 'application/json',
) -> bytes:
    """The bytes of a request; with a length, what its header promises."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(body) if length < 0 else length
    head = f'{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n'
    return f'{head}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n'.encode() + body


async def exchange(
    port: int, content: bytes, *, hangs_up: bool = False, address: str = '127.0.0.1', seconds: float = 60.0
) -> tuple[str, bytes]:
    """The status of the reply and its body; `none`: the connection was closed, `late`: nothing came in time."""
    try:
        reader, writer = await asyncio.open_connection('127.0.0.1', port, local_addr=(address, 0))
        try:
            writer.write(content)
            await writer.drain()
            if hangs_up:
                await asyncio.sleep(random.random() / 20)
                return 'none', b''
            async with asyncio.timeout(seconds):
                head = await reader.readuntil(b'\r\n\r\n')
                lengths = [each[15:] for each in head.lower().split(b'\r\n') if each.startswith(b'content-length:')]
                return head.split()[1].decode(), await reader.readexactly(int(lengths[0])) if lengths else b''
        finally:
            writer.close()
    except TimeoutError:
        return 'late', b''
    except (OSError, asyncio.IncompleteReadError):
        return 'none', b''

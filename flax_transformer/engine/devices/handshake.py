"""Connections between processes that share a secret, which never travels.

Each end sends a nonce and proves by an HMAC of both nonces that it knows the secret. Every later line carries its own
HMAC, so none can be forged, replayed or reordered; nothing is encrypted. An end that does not know the secret gets a
nonce and nothing else, and what it sends is compared, never parsed.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
from typing import Any

_DIGITS = 64  # of a nonce and of an HMAC, in hexadecimal


class StrangerError(Exception):
    """The other end did not follow the protocol."""


class WrongSecretError(StrangerError):
    """The other end follows the protocol with another secret, as if it had another run directory."""


class Channel:
    """A connection that carries JSON values, once `accept` or `call` has made sure of the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._key = b''
        self._roles = b'', b''  # this end's and the other's
        self._counts = [0, 0]  # of lines sent and received

    async def accept(self, secret: bytes) -> None:
        """The listening end's part. Raises StrangerError unless the other end proves itself."""
        own = secrets.token_hex(_DIGITS // 2).encode()
        self._writer.write(own + b'\n')
        other, proof = _split(await self._line())
        self._agree(secret, own + other, (b'listens', b'calls'))
        if not hmac.compare_digest(proof, self._code(1, b'')):
            raise WrongSecretError
        self._writer.write(self._code(0, b'') + b'\n')

    async def call(self, secret: bytes) -> None:
        """The connecting end's part, which proves itself first. Raises StrangerError unless the other end does too."""
        other, own = await self._line(), secrets.token_hex(_DIGITS // 2).encode()
        if len(other) != _DIGITS:
            raise StrangerError
        self._agree(secret, other + own, (b'calls', b'listens'))
        self._writer.write(own + b' ' + self._code(0, b'') + b'\n')
        try:
            proof = await self._line()
        except (StrangerError, ConnectionError):  # it hung up
            raise WrongSecretError from None
        if not hmac.compare_digest(proof, self._code(1, b'')):
            raise WrongSecretError

    def send(self, value: Any) -> None:
        self._counts[0] += 1
        body = json.dumps(value).encode()
        self._writer.write(self._code(0, body) + b' ' + body + b'\n')

    async def receive(self) -> Any:
        """The next value. Raises StrangerError if the line does not come from the other end, or is not JSON."""
        code, body = _split(await self._line())
        self._counts[1] += 1
        if not hmac.compare_digest(code, self._code(1, body)):
            raise StrangerError
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise StrangerError from None

    @property
    def is_closed(self) -> bool:
        """Whether the other end has hung up."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def close(self) -> None:
        """Closes the connection after what was sent has left."""
        self._writer.close()
        await self._writer.wait_closed()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except ValueError:  # longer than the reader's limit
            raise StrangerError from None
        if not line.endswith(b'\n'):
            raise StrangerError
        return line[:-1]

    def _agree(self, secret: bytes, nonces: bytes, roles: tuple[bytes, bytes]) -> None:
        self._key, self._roles = _hmac(secret, nonces), roles

    def _code(self, end: int, body: bytes) -> bytes:
        """The HMAC of an end's line; the proof at the start is an empty line number 0."""
        return _hmac(self._key, b'%s %d %s' % (self._roles[end], self._counts[end], body))


def _split(line: bytes) -> tuple[bytes, bytes]:
    """The 64 digits at the start of a line, and what follows the space after them."""
    if line[_DIGITS : _DIGITS + 1] != b' ':
        raise StrangerError
    return line[:_DIGITS], line[_DIGITS + 1 :]


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).hexdigest().encode()

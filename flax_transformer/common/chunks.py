"""Streams in chunks: what is endless is never in memory as a whole."""

import asyncio
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from .fields import check

T = TypeVar('T')
CHUNK = 2048  # lines of a stream that are in memory at once


class Streams:
    """Adds streams to a model that maps a list of lines to a list of results."""

    def stream(self, lines: Iterable[str | bytes], *, chunk: int = CHUNK, **options: Any) -> Iterator[Any]:
        """The results of endless lines; `chunk` of them are in memory at once. `options` are those of a call."""
        for part in chunks_of(lines, chunk):
            yield from self(part, **options)

    async def stream_async(
        self, lines: Iterable[str | bytes] | AsyncIterable[str | bytes], *, chunk: int = CHUNK, **options: Any
    ) -> AsyncIterator[Any]:
        """`stream` for an event loop, also of asynchronous lines; the work runs in a thread of its own."""
        async for part in chunks_of_async(lines, chunk):
            for result in await asyncio.to_thread(partial(self, part, **options)):
                yield result


def chunks_of(stream: Iterable[T], size: int) -> Iterator[list[T]]:
    _check(size)
    stream = iter(stream)
    while chunk := list(itertools.islice(stream, size)):
        yield chunk


async def chunks_of_async(stream: Iterable[T] | AsyncIterable[T], size: int) -> AsyncIterator[list[T]]:
    if not isinstance(stream, AsyncIterable):
        for chunk in chunks_of(stream, size):
            yield chunk
        return

    _check(size)
    chunk: list[T] = []
    async for item in stream:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _check(size: int) -> None:
    check(size >= 1, f'chunk={size}: expected at least 1 line')

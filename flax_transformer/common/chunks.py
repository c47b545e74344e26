"""Streams in chunks, so that what is endless is never in memory as a whole."""

import itertools
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TypeVar

from flax_transformer.common.fields import check

T = TypeVar('T')


def chunks_of(stream: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields a stream's items, `size` at a time. Raises UserError for a size below 1."""
    _check(size)
    stream = iter(stream)
    while some := list(itertools.islice(stream, size)):
        yield some


async def chunks_of_async(stream: Iterable[T] | AsyncIterable[T], size: int) -> AsyncIterator[list[T]]:
    """`chunks_of` a stream that may be asynchronous."""
    if not isinstance(stream, AsyncIterable):
        for some in chunks_of(stream, size):
            yield some
        return
    _check(size)
    some: list[T] = []
    async for item in stream:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def _check(size: int) -> None:
    check(size >= 1, f'chunk={size}: expected at least 1 line')

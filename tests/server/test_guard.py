"""Who is let wait, and for how long."""

import asyncio

import pytest

from flax_transformer.server.guard import Refusals


def test_a_client_waits_the_longer_for_a_refusal_the_more_of_them_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    refusals = Refusals()
    gates: list[asyncio.Event] = []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 2))
        await gates[0].wait()

    async def ask() -> None:
        gates.append(asyncio.Event())
        asked = [asyncio.create_task(refusals.wait(client)) for client in 'aab' + 'c' * 66]
        await asked[-1]  # it has its own at once: 64 others of its client have connections
        gates[0].set()
        await asyncio.gather(*asked)
        await refusals.wait('a')

    monkeypatch.setattr('flax_transformer.server.guard.asyncio.sleep', sleep)
    asyncio.run(ask())
    assert waits[:4] == [0.05, 0.1, 0.05, 0.05]
    assert (len(waits), max(waits), waits[-1]) == (3 + 64 + 1, 3.2, 0.05)

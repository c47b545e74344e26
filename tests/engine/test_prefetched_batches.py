"""Errors of a task's batches reach the step that waits for the batch."""

import sys
import threading
from collections.abc import Callable

import grain
import pytest

from flax_transformer.engine.batches import NumberedBatches


def fail(number: int) -> None:
    raise LookupError(number)


@pytest.mark.parametrize(('end', 'expected'), [(fail, LookupError), (sys.exit, RuntimeError)])
def test_no_step_waits_for_a_batch_that_fails_in_the_prefetching_thread(
    end: Callable[[int], None], expected: type[Exception]
) -> None:
    class Failing(NumberedBatches):
        def batch(self, number: int) -> dict[str, int]:
            return {'number': number} if number < 2 else end(number)

    errors = []

    def read() -> None:
        try:
            list(grain.experimental.ThreadPrefetchIterDataset(Failing(), prefetch_buffer_size=1))
        except Exception as error:
            errors.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    assert [type(error) for error in errors] == [expected]

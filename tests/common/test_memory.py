"""What is no longer used does not stay."""

import gc
import weakref
from typing import Any

from flax_transformer.common.memory import give_memory_back


class Node:
    other: Any = None


def test_objects_that_refer_to_each_other_are_freed() -> None:
    one, another = Node(), Node()
    one.other, another.other = another, one
    is_there = weakref.ref(one)
    gc.disable()
    try:
        del one, another
        assert is_there() is not None
        give_memory_back()
        assert is_there() is None
    finally:
        gc.enable()

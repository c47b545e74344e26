"""What is no longer used does not stay."""

import gc
import subprocess
import sys
import weakref
from typing import Any

from flax_transformer.common.memory import give_memory_back

COLLECTS = """
import gc
from flax_transformer.common.memory import collect_rarely, pass_over_imports

pass_over_imports()
print(gc.get_freeze_count() > 0)
collect_rarely()
pass_over_imports()
print(gc.get_freeze_count() > 0)
"""


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


def test_only_a_command_keeps_what_it_imported_from_being_looked_through() -> None:
    done = subprocess.run([sys.executable, '-c', COLLECTS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ['False', 'True']

"""What Python and glibc keep of memory that is no longer used."""

import contextlib
import ctypes
import gc

# glibc's numbers of the options of mallopt, and their values
_TRIM_THRESHOLD = -1, 8 << 20
_MMAP_THRESHOLD = -3, 4 << 20
_ARENA_MAX = -8, 2

_is_command = False  # else this process is somebody else's, whose objects are left to Python's own rules


def collect_rarely() -> None:
    """For the process of a command, which ends soon or makes little garbage: looks for it less often."""
    global _is_command
    _is_command = True
    gc.set_threshold(50_000)  # else looking for garbage takes a sixth of a command's start


def pass_over_imports() -> None:
    """In the process of a command, has no search for garbage look through what exists so far, mostly modules."""
    if _is_command:
        gc.freeze()


def keep_little_memory() -> None:
    """Has glibc return large blocks to the system at once, and use two heaps for small ones.

    For servers, before their threads begin: else each thread has a heap, and a compilation leaves holes in each.
    """
    with contextlib.suppress(OSError, AttributeError):
        for option, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX):
            ctypes.CDLL(None).mallopt(option, value)


def give_memory_back() -> None:
    """Frees objects that refer to each other, and returns to the system what glibc keeps of small blocks.

    Left to itself, Python looks through its oldest objects so rarely that several models are kept that were replaced.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

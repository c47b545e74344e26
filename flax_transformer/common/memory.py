"""What glibc keeps of freed memory."""

import contextlib
import ctypes

# glibc's numbers of the options of mallopt, and their values
_TRIM_THRESHOLD = -1, 8 << 20
_MMAP_THRESHOLD = -3, 4 << 20
_ARENA_MAX = -8, 2


def keep_little_memory() -> None:
    """Has glibc return large blocks to the system at once, and use two heaps for small ones.

    For servers, before their threads begin: else each thread has a heap, and a compilation leaves holes in each.
    """
    with contextlib.suppress(OSError, AttributeError):
        for option, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX):
            ctypes.CDLL(None).mallopt(option, value)


def trim_memory() -> None:
    """Returns to the system what glibc keeps of small blocks that were freed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

"""What Orbax prints and we do not want to see."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silences Orbax, which warns that a read-only manager is read-only, and of items without metadata of their own."""
    logger = logging.getLogger('absl')
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)

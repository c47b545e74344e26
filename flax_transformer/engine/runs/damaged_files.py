"""Orbax while it reads: whatever it raises becomes a sentence, and its warnings are left out."""

import contextlib
import logging
from collections.abc import Iterator

from flax_transformer.common.errors import UserError
from flax_transformer.engine.preemption import interrupt_in


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns any exception but those of the system into a UserError which says that `what` cannot be read.

    What Orbax warns of is left out: a read-only manager is read-only, items have no metadata of their own.
    """
    logger = logging.getLogger('absl')
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # Orbax may raise anything on a damaged file
        if interrupt := interrupt_in(error):  # of which Orbax makes an error of its own
            raise interrupt from None
        if 'RESOURCE_EXHAUSTED' in str(error):
            raise
        first = (str(error).splitlines() or [''])[0][:200]
        raise UserError(
            f'{what} is damaged, or cannot be read ({type(error).__name__}: {first}); restore it from a backup, or '
            'choose another'
        ) from None
    finally:
        logger.setLevel(level)

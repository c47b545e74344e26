"""The exception for mistakes that the user can fix."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake of the user: its message says what was found, what was expected, and what to do.

    Commands print the message without a traceback and exit with code 2. Any other exception that escapes a command is
    a bug of ours and keeps its traceback.
    """


class BadInput(UserError):
    """Input text that cannot be read; other files may be sound."""


class BadLine(BadInput):
    """A text, of several, that cannot be used."""

    def __init__(self, place: str, fault: str, index: int) -> None:
        """
        Args:
          place: which text it is, for the message.
          index: its number among the texts, from 0.
        """
        super().__init__(f'{place}: {fault}')
        self.fault, self.index = fault, index


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean a, b?` for the known names closest to `name`, or the empty string."""
    matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f' Did you mean {", ".join(matches)}?' if matches else ''

"""The one exception for mistakes that the user can mend."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Says what was got, what was expected and the remedy.

    Commands print it as one message, without a traceback, and exit with code 2. Anything else that
    escapes a command is a fault of ours and keeps its traceback.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean a, b?` for the known names closest to `name`, or the empty string."""
    matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f' Did you mean {", ".join(matches)}?' if matches else ''

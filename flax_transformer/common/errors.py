"""The exceptions for mistakes that the user can fix and for requests to stop."""

import difflib
from collections.abc import Iterable

_MOST_NAMES = 10_000  # difflib takes 50 us a name: of more, only those of nearly the same letters are compared
EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h, a temporary failure: schedulers restart the job


class Interrupted(KeyboardInterrupt):
    """Training saved and stopped on request; run the same command to resume."""


class UserError(ValueError):
    """A mistake of the user: its message says what was found, what was expected, and what to do.

    Commands print it and exit with code 2. Any other exception that escapes a command is a bug of ours.
    """


def refuse_faults(head: str, faults: Iterable[str]) -> None:
    """Raises UserError with each fault on a line of its own, if there are any."""
    if faults := list(faults):
        raise UserError('\n  '.join([head, *faults]))


class NoLanguages(UserError):
    """A language was asked for, and the model knows none by name."""


class BadInput(UserError):
    """Input text that cannot be read; other files may be sound."""


class BadLine(BadInput):
    def __init__(self, place: str, fault: str, index: int) -> None:
        """The message begins with the place; `index` is the text's number, from 0."""
        super().__init__(f'{place}: {fault}')
        self.fault = fault
        self.index = index


_CONTROL = {code: f'\\x{code:02x}' for code in (*range(32), *range(127, 160)) if chr(code) not in '\n\t'}


def visible(text: str) -> str:
    """The text with escapes for control characters, which may command a terminal; line breaks and tabs stay."""
    return text.translate(_CONTROL)


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its class, if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean a, b?` for the known names closest to `name`, or the empty string."""
    known = list(known)
    letters = set(name)
    if len(known) > _MOST_NAMES:
        known = [word for word in known if len(letters.symmetric_difference(word)) <= 2]

    matches = [word for word in known if word.casefold() == name.casefold()]
    for likeness in (0.7, 0.55):  # a typo first, then a part of the name
        matches = matches or difflib.get_close_matches(name, known, cutoff=likeness)
    return f' Did you mean {", ".join(matches)}?' if matches else ''

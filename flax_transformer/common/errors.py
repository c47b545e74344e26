"""The exceptions for mistakes that the user can fix and for requests to stop."""

import difflib
from collections.abc import Iterable

_MOST_NAMES = 10_000
_TYPOS = 0.65  # ratio of difflib; one letter in three may be another
EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h, a temporary failure: schedulers restart the job


class Interrupted(KeyboardInterrupt):
    """Training saved and stopped on request; run the same command to resume."""


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
        """The message begins with the place; `index` is the text's number, from 0."""
        super().__init__(f'{place}: {fault}')
        self.fault, self.index = fault, index


_CONTROL = {code: f'\\x{code:02x}' for code in (*range(32), *range(127, 160)) if chr(code) not in '\n\t'}


def visible(text: str) -> str:
    """The text with escapes for control characters, which may command a terminal; line breaks and tabs stay."""
    return text.translate(_CONTROL)


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its class, if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean a, b?` for the known names closest to `name`, or the empty string.

    Names that differ in capitals alone come first, then those of few typos; without any, names that share long parts
    with it, if there are at most _MOST_NAMES.
    """
    known, folded = list(known), name.casefold()
    limit = min(2, len(folded) // 3)  # more would be another word
    letters, typos = set(folded), []
    for number, word in enumerate(known):
        other = word.casefold()
        if abs(len(other) - len(folded)) > limit or len(letters.symmetric_difference(other)) > 2 * limit:
            continue  # the ratio takes much longer to compute
        if (ratio := difflib.SequenceMatcher(None, folded, other).ratio()) > _TYPOS:
            typos.append((-ratio, number))
    matches = [known[number] for _, number in sorted(typos)[:3]]
    if not matches and len(known) <= _MOST_NAMES:  # it takes 50 us a name
        matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f' Did you mean {", ".join(matches)}?' if matches else ''

"""Whether to read the test set that a run's config names: the run may come from a stranger.

A run that this user trained is sealed (`seal`). Of any other run only names that cannot lead out of the user's own data
folder are followed, unless the user says so.
"""

import re
from collections.abc import Callable
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.seal import is_sealed, seal

_LEADS_OUT = re.compile(r'\s*([/~\\]|[A-Za-z]:)|(^|.*[/\\])\.\.([/\\]|$)', re.DOTALL)


def leads_out(path: str) -> bool:
    """Whether a path, relative to a folder, may lead out of it."""
    return bool(_LEADS_OUT.match(path))


def seal_test_set(run: Path, settings: str, *, is_outside: bool, say: Callable[[str], None]) -> None:
    """Seals the settings that say where a run's test set is; says so if that is not possible and will be missed."""
    problem = seal(run, settings)
    if problem and is_outside:
        say(f'{run} could not be sealed as yours ({problem}): to evaluate it, give --trust-data')


def check_trusted(run: Path, settings: str, *, is_outside: bool, trust: bool, shown: str, remedy: str) -> None:
    """Raises UserError if a test set is outside the user's data folder because a stranger may have put it there.

    With `trust` the run is sealed, to be trusted from now on. `shown` names the test set in the message, `remedy` the
    options that give another one.
    """
    if trust:
        seal(run, settings)
    elif is_outside and not is_sealed(run, settings):
        raise UserError(
            f'{run} was not trained here by you, and its config says to read the test set {shown}. Give your own with '
            f'{remedy}; if you trust where the run comes from, --trust-data, once'
        )

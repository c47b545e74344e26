"""Whether to read the test set that a run's config names: the run may come from a stranger.

A run that this user trained is sealed (`engine.runs.seal`). Of any other run only names that cannot lead out of the
user's own data folder are followed, unless the user says so.
"""

import json
import re
from collections.abc import Callable

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.runs.seal import is_sealed, seal
from flax_transformer.tasks.translation.run import Run

_NO_FILES = ('number_words:', 'sacrebleu:')
_LEADS_OUT = re.compile(r'\s*([/~\\]|[A-Za-z]:)|(^|.*[/\\])\.\.([/\\]|$)', re.DOTALL)
_NO_LANGUAGE = re.compile(r'[/~\\:]|^\s*\.+\s*$')  # it stands for {lang} in a path


def seal_data(run: Run, data: DataConfig, *, say: Callable[[str], None]) -> None:
    """Seals where the config's test set is; says so if that is not possible and will be missed."""
    problem = seal(run.path, _settings(data))
    if problem and _leads_out(data, data):
        say(f'{run.path} could not be sealed as yours ({problem}): to evaluate it, give --trust-data')


def check_test_set(run: Run, data: DataConfig, *, trust: bool) -> None:
    """Raises UserError if the test set is outside the user's data folder because a stranger may have put it there.

    `data` is the run's, with what the user has overridden. With `trust` the run is sealed, to be trusted from now on.
    """
    named = run.read_config().data
    if trust:
        seal(run.path, _settings(named))
    elif _leads_out(data, named) and not is_sealed(run.path, _settings(named)):
        root = '' if data.root is None else f' below {data.root!r}'
        raise UserError(
            f'{run.path} was not trained here by you, and its config says to read the test set {_shown(data)!r}{root}. '
            'Give your own with --source and --reference, or with --data.test and --data.root; if you trust where the '
            'run comes from, --trust-data, once'
        )


def _settings(data: DataConfig) -> str:
    return json.dumps(['test set', data.root, data.test, *_languages(data)])


def _languages(data: DataConfig) -> tuple[str, str]:
    return data.source_language, data.target_language


def _leads_out(data: DataConfig, named: DataConfig) -> bool:
    """Whether `data` takes from `named`, a run's settings, a path that may lead out of the user's data folder."""
    if not data.test or data.test.startswith(_NO_FILES):
        return False
    if data.root is not None and data.root == named.root:
        return True
    if data.test == named.test and any(map(_LEADS_OUT.match, _parts(data))):
        return True
    given = set(_languages(data)) & set(_languages(named))
    return '{lang}' in data.test and any(map(_NO_LANGUAGE.search, given))


def _shown(data: DataConfig) -> str:
    """The name of the test set, without {lang} where that hides what is read."""
    strange = any(map(_NO_LANGUAGE.search, _languages(data)))
    return ','.join(data.test.replace('{lang}', language) for language in _languages(data)) if strange else data.test


def _parts(data: DataConfig) -> list[str]:
    names = [data.test.replace('{lang}', language) for language in _languages(data)]
    return [part for name in names for part in (name, *name.split(','), name.removeprefix('tfds:'))]

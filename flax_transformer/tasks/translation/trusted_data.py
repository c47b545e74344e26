"""Whether to read the test set that a translation run's config names; see `engine.runs.trust`."""

import json
import re
from collections.abc import Callable

from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.runs.trust import check_trusted, leads_out, seal_test_set
from flax_transformer.tasks.translation.run import Run

_NO_FILES = ('number_words:', 'sacrebleu:')
_NO_LANGUAGE = re.compile(r'[/~\\:]|^\s*\.+\s*$')  # it stands for {lang} in a path


def seal_data(run: Run, data: DataConfig, *, say: Callable[[str], None]) -> None:
    """Seals where the config's test set is; says so if that is not possible and will be missed."""
    seal_test_set(run.path, _settings(data), is_outside=_leads_out(data, data), say=say)


def check_test_set(run: Run, data: DataConfig, *, trust: bool) -> None:
    """Raises UserError if the test set is outside the user's data folder because a stranger may have put it there.

    `data` is the run's, with what the user has overridden. With `trust` the run is sealed, to be trusted from now on.
    """
    named = run.read_config().data
    root = '' if data.root is None else f' below {data.root!r}'
    check_trusted(
        run.path,
        _settings(named),
        is_outside=_leads_out(data, named),
        trust=trust,
        shown=f'{_shown(data)!r}{root}',
        remedy='--source and --reference, or with --data.test and --data.root',
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
    if data.test == named.test and any(map(leads_out, _parts(data))):
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

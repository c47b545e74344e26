"""Whether to read the test set that a speech run's config names; see `engine.runs.trust`."""

import json
from collections.abc import Callable

from flax_transformer.engine.runs.trust import check_trusted, leads_out, seal_test_set
from flax_transformer.tasks.speech.config import SpeechDataConfig
from flax_transformer.tasks.speech.run import Run


def seal_data(run: Run, data: SpeechDataConfig, *, say: Callable[[str], None]) -> None:
    """Seals where the config's test set is; says so if that is not possible and will be missed."""
    seal_test_set(run.path, _settings(data), is_outside=_leads_out(data, data), say=say)


def check_test_set(run: Run, data: SpeechDataConfig, *, trust: bool) -> None:
    """Raises UserError if the test set is outside the user's data folder because a stranger may have put it there.

    `data` is the run's, with what the user has overridden. With `trust` the run is sealed, to be trusted from now on.
    """
    named = run.read_config().data
    check_trusted(
        run.path,
        _settings(named),
        is_outside=_leads_out(data, named),
        trust=trust,
        shown=f'{data.test!r}' + ('' if data.root is None else f' below {data.root!r}'),
        remedy='--test FILE, or with --data.test and --data.root',
    )


def _settings(data: SpeechDataConfig) -> str:
    return json.dumps(['test set', data.root, data.test])


def _leads_out(data: SpeechDataConfig, named: SpeechDataConfig) -> bool:
    """Whether `data` takes from `named`, a run's settings, a path that may lead out of the user's data folder."""
    if not data.test or data.test.startswith('tones'):
        return False
    if data.root is not None and data.root == named.root:
        return True
    return data.test == named.test and leads_out(data.test)

"""Whether to read the test recordings that a trigger-word run's config names; see `engine.runs.trust`."""

import json
from collections.abc import Callable

from flax_transformer.engine.runs.trust import check_trusted, leads_out, seal_test_set
from flax_transformer.tasks.trigger_word.clips import PREFIX
from flax_transformer.tasks.trigger_word.config import TriggerWordDataConfig
from flax_transformer.tasks.trigger_word.run import Run


def seal_data(run: Run, data: TriggerWordDataConfig, *, say: Callable[[str], None]) -> None:
    """Seals where the config's recordings are; says so if that is not possible and will be missed."""
    seal_test_set(run.path, _settings(data), is_outside=_leads_out(data, data), say=say)


def check_recordings(run: Run, data: TriggerWordDataConfig, *, trust: bool) -> None:
    """Raises UserError if recordings are outside the user's data folder because a stranger may have named them.

    `data` is the run's, with what the user has overridden. With `trust` the run is sealed, to be trusted from now on.
    """
    named = run.read_config().data
    check_trusted(
        run.path,
        _settings(named),
        is_outside=_leads_out(data, named),
        trust=trust,
        shown=f'{", ".join(_specs(data))}' + ('' if data.root is None else f' below {data.root!r}'),
        remedy='--data.test and --data.test-background, or with --data.root',
    )


def _specs(data: TriggerWordDataConfig) -> tuple[str, ...]:
    found = data.validation + data.validation_background + data.test + data.test_background
    return tuple(spec for spec in found if not spec.startswith(PREFIX))


def _settings(data: TriggerWordDataConfig) -> str:
    return json.dumps(['recordings', data.root, _specs(data)])


def _leads_out(data: TriggerWordDataConfig, named: TriggerWordDataConfig) -> bool:
    """Whether `data` takes from `named`, a run's settings, a path that may lead out of the user's data folder."""
    if not _specs(data):
        return False
    if data.root is not None and data.root == named.root:
        return True
    return any(leads_out(spec) for spec in _specs(data) if spec in _specs(named))

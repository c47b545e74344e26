"""Every kind of fault that several tasks, or translation, check a corpus for."""

import json
from pathlib import Path
from typing import Literal, NamedTuple

Severity = Literal['error', 'warning', 'note']
MEMORIZED = 0.9  # a test set of which so much is in the training data has a meaningless score


class Kind(NamedTuple):
    name: str
    severity: Severity
    what: str  # what is counted
    training: str = 'trains on them as they are'  # what training does about it
    remedy: str = 'clean the corpus'
    share: float = 0.0  # a warning is only a note where a smaller share of the corpus shows it

    def severity_of(self, count: int, total: int) -> Severity:
        return 'note' if self.severity == 'warning' and count < self.share * total else self.severity


def read_kinds(module: str, **numbers: int) -> dict[str, Kind]:
    """The kinds beside a module's file, by name, in the order of reports; their texts may have numbers."""
    kinds = json.loads(Path(module).with_name('kinds.json').read_text('utf-8'))
    return {name: Kind(name, **fields | {'what': fields['what'].format(**numbers)}) for name, fields in kinds.items()}


# An error is certain damage, or makes the test score meaningless: training does not start. For translation, the shares
# are fields of CheckConfig with the kinds' names.
KINDS = read_kinds(__file__)
_SHARED = (
    *('blank', 'control', 'entity', 'quoted', 'mojibake', 'duplicate', 'contradiction', 'leaked'),
    *('test_is_training', 'validation_is_test'),
)
SHARED = {name: KINDS[name] for name in _SHARED}  # those that other tasks check, too

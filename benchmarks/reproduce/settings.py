"""Which events of a log belong to the present config."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.fields import marked

# A run may be resumed with other values of some of these, but is then not the run that a new one would be.
SHAPES_TRAINING = ('training.', 'optimizer.')


@dataclass(frozen=True)
class Settings:
    """What decides how all seeds of an experiment learn and translate: the fields that are not the defaults."""

    fields: dict[str, Any]  # JSON values
    unused_in_training: frozenset[str]  # such as those of the search

    def are_of(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is of these settings."""
        return event.get('settings') == self.fields

    def train_alike(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is of these settings, or of others with which the same run would be trained."""
        return self._training(event.get('settings') or {}) == self._training(self.fields)

    def _training(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if name not in self.unused_in_training}


def settings_of(config: Any, corpus: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a config; `corpus` stands for the training corpus, where that is made of another."""
    left_out = marked(config, 'cosmetic') | {'seed'} | ({'data.train'} if corpus else set())
    fields = {name: new for name, (_, new) in changed_fields(type(config)(), config).items() if name not in left_out}
    unused = (name for name in marked(config, 'resumable') if not name.startswith(SHAPES_TRAINING))
    return Settings(json.loads(json.dumps(fields | dict(corpus or {}))), frozenset(unused))

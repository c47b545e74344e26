"""Which events of a log belong to the present config."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.reproduce.log import Event
from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.fields import marked


@dataclass(frozen=True)
class Settings:
    """What decides how all seeds of an experiment learn and translate: the fields that are not the defaults."""

    fields: dict[str, Any]  # JSON values
    resumable: frozenset[str]  # those that may change when a run is resumed

    def are_of(self, event: Event) -> bool:
        """Whether an event is of these settings; for the training of a run, but for those that may change."""
        logged = event.get('settings')
        if logged is None or event['event'] not in ('train', 'trained'):
            return logged == self.fields
        return self._fixed(logged) == self._fixed(self.fields)

    def _fixed(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if name not in self.resumable}


def settings_of(config: Any, corpus: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a config; `corpus` stands for the training corpus, where that is made of another."""
    left_out = marked(config, 'cosmetic') | {'seed'} | ({'data.train'} if corpus else set())
    fields = {name: new for name, (_, new) in changed_fields(type(config)(), config).items() if name not in left_out}
    return Settings(json.loads(json.dumps(fields | dict(corpus or {}))), frozenset(marked(config, 'resumable')))

"""Sections of configs, and checks of them, that several tasks share."""

from dataclasses import dataclass
from typing import Any

from flax_transformer.common.fields import check, check_types, setting
from flax_transformer.data.held_out import check_held_out


@dataclass(frozen=True, kw_only=True)
class ExamplesConfig:
    """Examples that a task names by `train`, `validation` and others."""

    held_out: int = 0  # training examples taken out for validation, instead of a set of its own; equal ones together
    # Folder where relative paths start; None: $FLAX_TRANSFORMER_DATA, else data/.
    root: str | None = setting(None, 'resumable', 'cosmetic')

    def __post_init__(self) -> None:
        check_types(self)
        check_held_out(self.held_out, self.validation)
        check(bool(self.train), 'train is empty: expected the examples to learn from')


def check_heads(model: Any) -> None:
    """Raises UserError unless the heads of a Transformer share its width."""
    check(
        model.encoder != 'transformer' or (model.d_model % 2 == 0 and model.d_model % model.num_heads == 0),
        f'd_model={model.d_model}: a transformer needs an even multiple of num_heads={model.num_heads}',
    )

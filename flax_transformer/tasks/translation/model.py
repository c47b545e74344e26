"""What the translator asks of a model: three methods, and a few more for what not every model can do."""

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from flax_transformer.common.decode_state import DecodeState
from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import shapes_on_one_device
from flax_transformer.tasks.translation.config import Config
from flax_transformer.transformer import model as transformer
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.model import Transformer


class TranslationModel(Protocol):
    """A Linen module with these methods, called through `apply`; B sentences, S source and T target slots, V pieces.

    A source is followed by padding; a target starts with padding, as the search does.

    Optional:
      cross_attention(source, target_in) -> [layers, B, H, T, S]: for word alignments, pictures and scores with a
        coverage penalty.
      decode_and_look(tokens, state) -> (logits, attention [N, S], state): for a search with a coverage penalty.
      supports_int8: present if parameters may be those of `ops.int8.to_int8`.
      hidden(source, target_in) -> states [B, T, ...] and project(states) -> logits [B, T, V]: to score targets without
        all logits in memory; with both, `__call__` is project(hidden(...)).
      max_positions: the longest source or target that it takes; absent or None: any.
    """

    def apply(self, variables: Any, *args: Any, method: str | None = None) -> Any: ...

    def __call__(self, source: jax.Array, target_in: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Logits [B, T, V] of source ids [B, S] and decoder inputs [B, T]."""

    def start(self, source: jax.Array) -> DecodeState:
        """The state that decodes source ids [B, S]."""

    def decode(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        """Logits [N, V] of the token after `tokens` [N], and the next state."""


def make_model(model: TransformerConfig | TranslationModel) -> TranslationModel:
    """The model of a config; a model is returned as it is."""
    return Transformer(model) if isinstance(model, TransformerConfig) else model


def require(models: Sequence[TranslationModel], name: str, purpose: str) -> None:
    """Raises UserError for a model that lacks an optional method or attribute."""
    for model in models:
        if not hasattr(model, name):
            raise UserError(f'{purpose} needs a model that has `{name}`; {type(model).__name__} has none')


def max_positions(models: Sequence[TranslationModel]) -> int | None:
    """The longest source or target that all of the models take; None: any."""
    limits = [getattr(model, 'max_positions', None) for model in models]
    return min((limit for limit in limits if limit is not None), default=None)


def parameter_shapes(config: Config) -> Any:
    """The shapes of the parameters of a config's model, on the first device."""
    return shapes_on_one_device(transformer.parameter_shapes(config.model))

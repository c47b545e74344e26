"""What the translator asks of a model, and the models of this package.

A model is a Linen module with three methods; B sentences, S source and T target slots, N hypotheses, V pieces:
  __call__(source [B, S], target_in [B, T], *, deterministic=True) -> logits [B, T, V]
  start(source) -> the `DecodeState` before the first token
  decode(tokens [N], state) -> (logits [N, V] of the token after them, the next state)

Optional:
  cross_attention(source, target_in) -> [layers, B, H, T, S]: for word alignments, pictures and scores with a coverage
    penalty.
  decode_with_attention(tokens, state) -> (logits, attention [N, S], state): for a search with a coverage penalty.
  supports_int8: present if parameters may be those of `ops.int8.to_int8`.
  hidden(source, target_in) -> states [B, T, ...] and project(states) -> logits [B, T, V]: to score targets without all
    logits in memory; with both, `__call__` is project(hidden(...)).
  max_positions: the longest source or target that it takes; absent or None: any.
  start_id: what a target starts with in place of padding.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices.sharding import Rules
from flax_transformer.rnn import model as rnn
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.transformer import flops as transformer_flops
from flax_transformer.transformer import model as transformer
from flax_transformer.transformer import sharding_rules as transformer_rules
from flax_transformer.transformer.config import TransformerConfig

from .config import ModelConfig

TranslationModel = nn.Module


class Family(NamedTuple):
    """The models of one class of configs, and what training asks beyond their methods."""

    make: Callable[..., TranslationModel]  # (config, remat=False, platform=None)
    init_params: Callable[[Any, jax.Array], Any]  # (config, key)
    # (config, platform=None): the config with the concrete dtype that it computes in there
    resolve_dtype: Callable[..., Any]
    forward_flops: Callable[..., Any]  # (config, source slots, target slots): a NamedTuple with `total` and `times`
    sharding_rules: Rules

    def parameter_shapes(self, config: Any) -> Any:
        """Each parameter as a `jax.ShapeDtypeStruct`; computes nothing."""
        return jax.eval_shape(partial(self.init_params, config), jax.random.key(0))


_FAMILIES: dict[type, Family] = {
    TransformerConfig: Family(
        transformer.Transformer,
        transformer.init_params,
        transformer.resolve_dtype,
        transformer_flops.forward_flops,
        transformer_rules.SHARDING_RULES,
    ),
    RecurrentConfig: Family(
        rnn.AttentionRNN, rnn.init_params, rnn.resolve_dtype, rnn.forward_flops, rnn.SHARDING_RULES
    ),
}


def family_of(config: ModelConfig) -> Family:
    return _FAMILIES[type(config)]


def source_table(config: ModelConfig) -> str:
    """The name of the parameters that embed the source."""
    return 'embedding' if config.tie_embeddings in ('all', 'sides') else 'source_embedding'


def make_model(model: ModelConfig | TranslationModel) -> TranslationModel:
    """The model of a config; a model is itself."""
    return family_of(model).make(model) if type(model) in _FAMILIES else model


def require(models: Sequence[TranslationModel], name: str, purpose: str) -> None:
    """Raises UserError for a model that lacks an optional method or attribute."""
    for model in models:
        if not hasattr(model, name):
            raise UserError(f'{purpose} needs a model that has `{name}`; {type(model).__name__} has none')


def max_positions(models: Sequence[TranslationModel]) -> int | None:
    """The longest source or target that all of the models take; None: any."""
    limits = [getattr(model, 'max_positions', None) for model in models]
    return min((limit for limit in limits if limit is not None), default=None)


def start_id(model: TranslationModel) -> int:
    """What a model's targets start with."""
    return model.start_id if hasattr(model, 'start_id') else model.config.pad_id

"""A translation task whose encoder has batch or instance norm, built on the paper's layers, for benchmarks/norms.py.

Both norms average over positions. In a decoder they would let a position see later ones, which it must predict, so the
decoder keeps the norm of its config. Shapes: B batch, S positions, D features. Segments [B, S] number the sentences of
a row from 1; 0 is padding, which does not count.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.optimizer import make_optimizer, make_schedule
from flax_transformer.engine.task_value import Recipe
from flax_transformer.ops.dropout import Dropout
from flax_transformer.ops.embedding import Embeddings
from flax_transformer.tasks.translation import config as translation
from flax_transformer.tasks.translation import run as translation_run
from flax_transformer.tasks.translation.task import TranslationTask, loss_sums, with_dtype
from flax_transformer.tasks.translation.training import training
from flax_transformer.transformer.attention import MultiHeadAttention, padding_mask, segment_mask
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.decoder import Decoder
from flax_transformer.transformer.layers import FeedForward, Positions
from flax_transformer.transformer.model import Transformer, resolve_dtype

MOMENTUM = 0.9  # how much of the running statistics a step keeps


class BatchSums(NamedTuple):
    """What a batch norm saw in training, as sums over tokens.

    Deviations from the running mean are summed, not values: squares of values lose the variance if the mean is large.
    """

    count: jax.Array
    deviations: jax.Array  # [D]
    squares: jax.Array  # [D], squared deviations


class InstanceNorm(nn.Module):
    """Each feature normalized over the positions of its sentence (Ulyanov et al. 2016), then scale and bias.

    A sentence of one token becomes the bias.
    """

    epsilon: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array, segments: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """x [B, S, D], normalized."""
        is_own = segment_mask(segments, segments)[:, 0].astype(jnp.float32)
        weights = is_own / jnp.maximum(is_own.sum(axis=-1, keepdims=True), 1.0)
        mean_over = partial(jnp.einsum, 'BTS,BSD->BTD', weights, precision=jax.lax.Precision.HIGHEST)

        x = _tokens(x.astype(jnp.float32), segments)
        deviation = x - mean_over(x)
        variance = mean_over(jnp.square(deviation))
        return _scaled(self, deviation * jax.lax.rsqrt(variance + self.epsilon))


class BatchNorm(nn.Module):
    """Each feature normalized over all tokens of a batch (Ioffe and Szegedy 2015), then scale and bias.

    In training the statistics are those of the batch. Otherwise they are the running ones, `mean` and `variance`:
    parameters without a gradient, which `with_running_statistics` renews after each step from the `BatchSums` sown in
    the collection 'statistics'.
    """

    epsilon: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array, segments: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """x [B, S, D], normalized."""
        size = (x.shape[-1],)
        mean = jax.lax.stop_gradient(self.param('mean', nn.initializers.zeros, size, jnp.float32))
        variance = jax.lax.stop_gradient(self.param('variance', nn.initializers.ones, size, jnp.float32))
        x = x.astype(jnp.float32)

        if not deterministic:
            running = mean
            count = (segments > 0).sum().astype(jnp.float32)

            def mean_over(x: jax.Array) -> jax.Array:
                return _tokens(x, segments).sum(axis=(0, 1)) / jnp.maximum(count, 1.0)

            mean = mean_over(x)
            variance = mean_over(jnp.square(x - mean[None, None]))
            deviation = mean - running
            sums = BatchSums(count, count * deviation, count * (variance + jnp.square(deviation)))
            self.sow('statistics', 'sums', jax.lax.stop_gradient(sums), reduce_fn=lambda _, sums: sums)

        # Padding becomes the bias: its values, which nothing holds back, could grow from layer to layer.
        normalized = _tokens(x - mean[None, None], segments) * jax.lax.rsqrt(variance + self.epsilon)[None, None]
        return _scaled(self, normalized)


NORMS = {'batch': BatchNorm, 'instance': InstanceNorm}


def _tokens(x: jax.Array, segments: jax.Array) -> jax.Array:
    """x [B, S, D] with zeros at padding."""
    return jnp.where((segments > 0)[..., None], x, 0.0)


def _scaled(module: InstanceNorm | BatchNorm, x: jax.Array) -> jax.Array:
    scale = module.param('scale', nn.initializers.ones, (x.shape[-1],), jnp.float32)
    bias = module.param('bias', nn.initializers.zeros, (x.shape[-1],), jnp.float32)
    return (x * scale[None, None] + bias[None, None]).astype(module.dtype)


def with_running_statistics(params: Any, seen: Any) -> Any:
    """The parameters with running statistics renewed by the collection 'statistics' of a step."""
    if 'sums' not in seen:
        return params | {name: with_running_statistics(params[name], below) for name, below in seen.items()}

    sums: BatchSums = seen['sums']
    count = jnp.maximum(sums.count, 1.0)
    deviation = sums.deviations / count
    variance = jnp.maximum(sums.squares / count - jnp.square(deviation), 0.0)
    batch = {'mean': params['mean'] + deviation, 'variance': variance}
    step = jnp.where(sums.count > 0, 1.0 - MOMENTUM, 0.0)
    return params | {name: params[name] + step * (value - params[name]) for name, value in batch.items()}


class Residual(nn.Module):
    """The residual connection of `transformer.layers`, with a norm that reads segments."""

    config: TransformerConfig
    norm: str

    @nn.compact
    def __call__(self, x: jax.Array, sublayer: Any, segments: jax.Array, deterministic: bool) -> jax.Array:
        config = self.config
        norm = NORMS[self.norm](config.norm_epsilon, jnp.dtype(config.dtype), name='norm')
        norm = partial(norm, segments=segments, deterministic=deterministic)
        dropout = partial(Dropout(config.dropout_rate), deterministic=deterministic)
        return x + dropout(sublayer(norm(x))) if config.norm_first else norm(x + dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """The paper's encoder layer around such residual connections."""

    config: TransformerConfig
    norm: str

    def setup(self) -> None:
        self.self_attention = MultiHeadAttention.of(self.config)
        self.self_residual = Residual(self.config, self.norm)
        self.feed_forward = FeedForward(self.config)
        self.feed_forward_residual = Residual(self.config, self.norm)

    def __call__(self, x: jax.Array, mask: jax.Array, segments: jax.Array, deterministic: bool) -> jax.Array:
        attend = partial(self.self_attention, mask=mask, deterministic=deterministic)
        transform = partial(self.feed_forward, deterministic=deterministic)
        x = self.self_residual(x, attend, segments, deterministic)
        return self.feed_forward_residual(x, transform, segments, deterministic)


class Encoder(nn.Module):
    """Memory [B, S, D] of embedded source x [B, S, D] under a mask."""

    config: TransformerConfig
    norm: str

    def setup(self) -> None:
        config = self.config
        self.layers = [EncoderLayer(config, self.norm) for _ in range(config.num_encoder_layers)]
        self.final_norm = NORMS[self.norm](config.norm_epsilon, jnp.dtype(config.dtype)) if config.norm_first else None

    def __call__(self, x: jax.Array, mask: jax.Array, segments: jax.Array, deterministic: bool = True) -> jax.Array:
        for layer in self.layers:
            x = layer(x, mask, segments, deterministic)
        return x if self.final_norm is None else self.final_norm(x, segments, deterministic=deterministic)


class NormedTransformer(Transformer):
    """The Transformer with batch or instance norm in its encoder."""

    norm: str = 'batch'

    def setup(self) -> None:
        config = resolve_dtype(self.config)
        self.embeddings = Embeddings(config, config.scale_embedding, config.pad_row, jnp.dtype(config.dtype))
        nn.share_scope(self, self.embeddings)
        self.source_positions, self.target_positions = Positions.of(config), Positions.of(config)
        self.source_norm = self.target_norm = None
        self.dropout = Dropout(config.dropout_rate)
        self.encoder = Encoder(config, self.norm)  # Linen refuses a second module of this name, after super().setup()
        self.decoder = Decoder(config)

    def encode(
        self,
        source: jax.Array,
        *,
        segments: jax.Array | None = None,
        positions: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        if segments is None:
            mask = padding_mask(source, self.config.pad_id)
            segments = mask[:, 0, 0].astype(jnp.int32)
        else:
            mask = segment_mask(segments, segments)
        x = self._embed('source', source, positions, source.shape[1], deterministic)
        return self.encoder(x, mask, segments, deterministic)


class Recording:
    """A model that keeps what its batch norms sow in one pass."""

    def __init__(self, model: NormedTransformer) -> None:
        self.model, self.config, self.start_id = model, model.config, model.start_id
        self.statistics: Any = {}

    def apply(self, variables: Any, *args: Any, method: str, **keywords: Any) -> jax.Array:
        if method != 'hidden':
            return self.model.apply(variables, *args, method=method, **keywords)
        hidden, sown = self.model.apply(variables, *args, method=method, mutable=['statistics'], **keywords)
        self.statistics = sown.get('statistics', {})
        return hidden


@dataclass(frozen=True, kw_only=True)
class Config(translation.Config):
    """A translation experiment with another norm in the encoder."""

    task: ClassVar[str] = 'encoder_norms'

    encoder_norm: Literal['batch', 'instance'] = 'batch'


class InstanceNormTask(TranslationTask):
    """The translation task with instance norm in the encoder."""

    def __init__(self, config: Config, *, platform: str) -> None:
        super().__init__(config, platform=platform)
        self.config = config
        self.model = NormedTransformer(config.model, norm=config.encoder_norm)
        self.sharding_rules = (*self.sharding_rules, (r'norm/(mean|variance)', PartitionSpec()))

    def init(self, key: jax.Array) -> Any:
        tokens = jnp.zeros((1, 1), jnp.int32)
        return jax.jit(self.model.init)(key, tokens, tokens)['params']

    def loss(self, params: Any, batch: Any, key: jax.Array | None) -> tuple[jax.Array, Any]:
        return self.loss_and_statistics(params, batch, key)[:2]

    def loss_and_statistics(self, params: Any, batch: Any, key: jax.Array | None) -> tuple[jax.Array, Any, Any]:
        model = Recording(self.model)
        smoothing = self.config.training.label_smoothing
        loss, sums = loss_sums(params, batch, key, model=model, label_smoothing=smoothing)
        return loss, sums, model.statistics


class BatchNormTask(InstanceNormTask):
    """The same with batch norm, whose running statistics a step renews; so it updates its parameters itself."""

    def __init__(self, config: Config, *, platform: str) -> None:
        super().__init__(config, platform=platform)
        optimizer = config.optimizer
        schedule = make_schedule(optimizer, d_model=self.d_model, steps=config.training.steps)
        self._optimizer = make_optimizer(optimizer, schedule)

    def init_memory(self, params: Any) -> Any:
        return self._optimizer.init(params)

    def update(
        self, params: Any, memory: Any, batch: Any, key: jax.Array, *, learning_rate: Any, share: Any
    ) -> tuple[Any, Any, Any]:
        def recorded(params: Any) -> tuple[jax.Array, Any]:
            loss, sums, statistics = self.loss_and_statistics(params, batch, key)
            return loss, (sums | {'loss': loss}, statistics)

        grads, (sums, statistics) = jax.grad(recorded, has_aux=True)(params)
        grads = jax.tree.map(lambda grad: grad / jnp.maximum(sums['target_tokens'], 1.0), grads)
        updates, moments = self._optimizer.update(grads, memory, params)
        updated = with_running_statistics(optax.apply_updates(params, updates), statistics)

        is_finite = jnp.isfinite(optax.tree.norm(grads)) & jnp.isfinite(sums['loss'])
        params, memory = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old), (updated, moments), (params, memory)
        )
        return params, memory, sums


class Run(translation_run.Run):
    config_class = Config


def _make_task(config: Config, devices: Devices) -> InstanceNormTask:
    if len(devices) > 1:
        raise UserError(f'parallel: {len(devices)} devices; batch norm is compared on one: set num_devices=1')
    platform = devices.devices[0].platform
    kinds = {'batch': BatchNormTask, 'instance': InstanceNormTask}
    return kinds[config.encoder_norm](with_dtype(config, platform), platform=platform)


TRAINING = replace(training(), make_task=_make_task, finish=lambda run, config, prepared: None)
RECIPE = Recipe(config=Config, run=Run, training=lambda: TRAINING)

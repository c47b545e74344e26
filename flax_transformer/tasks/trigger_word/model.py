"""The model: samples in, a logit for each output frame out.

Shapes: B streams, T samples, F frames, M mel bands, N output frames, H hidden size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.audio.features import log_mel
from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.ops.dense import Dense
from flax_transformer.ops.dropout import Dropout
from flax_transformer.rnn.layers import RecurrentLayer, State, advance, batch_first, over_time, zero_state
from flax_transformer.rnn.recurrence import Times, recur

from .config import DetectorConfig

Change = Callable[[jax.Array], jax.Array]


class StreamState(NamedTuple):
    samples: jax.Array  # [B, window - hop], the last ones, which the next frames begin with
    frames: jax.Array  # [B, kernel - stride, M], the last ones, normalized, which the next output frame begins with
    hidden: jax.Array  # [B, H], of the GRU


class TriggerWordModel(nn.Module):
    """Log-mel frames, normalized as those of training in each band, a convolution, a GRU, and logits.

    Output frame i knows the samples before (i + 1) * stride * hop. A stream begins in digital silence.
    """

    config: DetectorConfig
    features: FeatureConfig

    def setup(self) -> None:
        config = self.config
        bands = self.features.num_mels
        # Parameters without a gradient: they are kept, averaged and copied with the others.
        self.mean = self.param('mean', nn.initializers.zeros, (bands,), jnp.float32)
        self.deviation = self.param('deviation', nn.initializers.ones, (bands,), jnp.float32)
        self.convolution = Dense(config.kernel * bands, config.num_filters, kernel_init=nn.initializers.he_normal())
        self.dropout = Dropout(config.dropout_rate)
        self.recurrent = RecurrentLayer(config.num_filters, config.hidden_size, 'gru')
        self.output = Dense(config.hidden_size, 1)

    def __call__(self, samples: jax.Array, *, change: Change | None = None, deterministic: bool = True) -> jax.Array:
        """Logits [B, N], float32, of whole scenes [B, T]. In training `change` varies normalized frames [B, F, M]."""
        step = self.config.stride * self.features.hop
        samples = samples[:, : samples.shape[1] // step * step]
        state = self.start(len(samples))
        return self.advance(samples, state, change=change, deterministic=deterministic)[0]

    def start(self, batch: int) -> StreamState:
        config = self.config
        features = self.features
        return StreamState(
            jnp.zeros((batch, features.window - features.hop), jnp.float32),
            jnp.zeros((batch, config.kernel - config.stride, features.num_mels), jnp.float32),
            *zero_state('gru', batch, config.hidden_size),
        )

    def advance(
        self, samples: jax.Array, state: StreamState, *, change: Change | None = None, deterministic: bool = True
    ) -> tuple[jax.Array, StreamState]:
        """Logits [B, N] of the next samples [B, N * stride * hop], and the state after them."""
        samples = jnp.concatenate([state.samples, samples], axis=1)
        mean, deviation = (jax.lax.stop_gradient(x)[None, None] for x in (self.mean, self.deviation))
        frames = (log_mel(samples, self.features) - mean) / deviation
        if change is not None:
            frames = change(frames)
        frames = jnp.concatenate([state.frames, frames], axis=1)
        x = nn.relu(self.convolution(windows(frames, self.config.kernel, self.config.stride)))
        x = self.dropout(x, deterministic=deterministic)
        weights = {'recurrent': self.recurrent.recurrent.kernel}
        steps = over_time(self.recurrent.input(x))
        (hidden,), states = recur(_gru_step, weights, (), (state.hidden,), steps)
        x = self.dropout(batch_first(states), deterministic=deterministic)
        kept_samples = samples[:, samples.shape[1] - state.samples.shape[1] :]
        kept_frames = frames[:, frames.shape[1] - state.frames.shape[1] :]
        return self.output(x)[..., 0], StreamState(kept_samples, kept_frames, hidden)


def _gru_step(times: Times, _: Any, state: State, from_input: jax.Array) -> tuple[State, jax.Array]:
    state = advance('gru', from_input, times('recurrent', state[0]), state)
    return state, state[0]


def windows(frames: jax.Array, kernel: int, stride: int) -> jax.Array:
    """[B, N, kernel * M]: of frames [B, F, M], the `kernel` that each output frame sees.

    kernel 3, stride 2:  0 1 2 3 4  ->  0 1 2
                                        2 3 4
    """
    count = (frames.shape[1] - kernel) // stride + 1
    last = (count - 1) * stride + 1
    return jnp.concatenate([frames[:, i : i + last : stride] for i in range(kernel)], axis=-1)


def init_params(config: DetectorConfig, features: FeatureConfig, key: jax.Array) -> Any:
    """Fresh parameters; features are not normalized yet."""
    model = TriggerWordModel(config, features)
    samples = jnp.zeros((1, config.stride * features.hop), jnp.float32)
    return jax.jit(model.init)(key, samples)['params']


def with_statistics(params: Any, scenes: np.ndarray, features: FeatureConfig) -> Any:
    """The parameters with each band's mean and deviation in scenes [B, T]."""
    frames = np.asarray(jax.jit(partial(log_mel, config=features))(scenes), np.float64)
    mean = frames.mean(axis=(0, 1))
    deviation = np.maximum(frames.std(axis=(0, 1)), 0.1)
    return params | {'mean': mean.astype(np.float32), 'deviation': deviation.astype(np.float32)}

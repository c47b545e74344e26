"""Dense layers whose products run on rows: [B * T, D], not [B, T, D]."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class Dense(nn.Module):
    """x W + b, with Linen's names and its draws of the parameters.

    Linen multiplies [B, T, D] as it stands; the gradient of the kernel then sums over two axes, for which XLA writes
    transposed copies on CPUs.
    """

    inputs: int
    features: int
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32

    def setup(self) -> None:
        shape = (self.inputs, self.features)
        self.kernel = self.param('kernel', nn.initializers.glorot_uniform(), shape, jnp.float32)
        self.bias = self.param('bias', nn.initializers.zeros, (self.features,), jnp.float32) if self.use_bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] of x [..., inputs]."""
        return side_by_side(x, self)[0]


def side_by_side(x: jax.Array, *layers: Dense) -> list[jax.Array]:
    """Each layer's [..., features] of the same x [..., inputs], in one product: layers of equal shape."""
    dtype = layers[0].dtype
    rows = x.reshape(-1, x.shape[-1]).astype(dtype)
    # An axis of their own, not one kernel beside the other: where features lie on many devices they stay there.
    kernels = jnp.stack([layer.kernel for layer in layers], axis=1).astype(dtype)
    products = jax.lax.dot_general(rows, kernels, (((1,), (0,)), ((), ())))
    out = []
    for number, layer in enumerate(layers):
        y = products[:, number]
        if layer.bias is not None:
            y = y + layer.bias.astype(dtype)[None]
        out.append(y.reshape(*x.shape[:-1], layer.features))
    return out

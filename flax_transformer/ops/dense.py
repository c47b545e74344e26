"""Dense layers whose products run on rows: [B * T, D], not [B, T, D]."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from .parameter import parameter
from .product import add_to_rows, product, products


class Dense(nn.Module):
    """x W + b, with the parameter names and initial values of Linen's Dense.

    Linen multiplies [B, T, D] as is, whose gradients XLA transposes on CPUs.
    """

    inputs: int
    features: int
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32
    kernel_init: nn.initializers.Initializer = nn.initializers.glorot_uniform()

    def setup(self) -> None:
        shape = (self.inputs, self.features)
        self.kernel = parameter(self, 'kernel', self.kernel_init, shape, jnp.float32)
        self.bias = None
        if self.use_bias:
            self.bias = parameter(self, 'bias', nn.initializers.zeros, (self.features,), jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.finish(product(_rows(x, self.dtype), self.kernel), x)

    def finish(self, rows: jax.Array, x: jax.Array) -> jax.Array:
        """[..., features]: rows of products plus the bias, in the shape of x."""
        if self.bias is not None:
            rows = add_to_rows(rows, self.bias)
        return rows.reshape(*x.shape[:-1], self.features)


def side_by_side(x: jax.Array, *layers: Dense) -> list[jax.Array]:
    """[..., features] of the same x [..., inputs] from each of several layers of equal shape, in one product."""
    rows = _rows(x, layers[0].dtype)
    results = products(rows, [layer.kernel for layer in layers])
    return [layer.finish(result, x) for layer, result in zip(layers, results, strict=True)]


def _rows(x: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return x.reshape(-1, x.shape[-1]).astype(dtype)

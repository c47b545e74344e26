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
        return self.finish(_rows(x, self.dtype) @ self.kernel.astype(self.dtype), x)

    def finish(self, products: jax.Array, x: jax.Array) -> jax.Array:
        """Adds the bias to rows of products, and gives them the shape of x."""
        if self.bias is not None:
            products = products + self.bias.astype(self.dtype)[None]
        return products.reshape(*x.shape[:-1], self.features)


def side_by_side(x: jax.Array, *layers: Dense) -> list[jax.Array]:
    """Each layer's [..., features] of the same x [..., inputs], in one product: layers of equal shape.

    It pays for many rows: the kernels are laid together at each call.
    """
    dtype = layers[0].dtype
    # An axis of their own, not one kernel beside the other: where features lie on many devices they stay there.
    kernels = jnp.stack([layer.kernel for layer in layers], axis=1).astype(dtype)
    products = jax.lax.dot_general(_rows(x, dtype), kernels, (((1,), (0,)), ((), ())))
    return [layer.finish(products[:, number], x) for number, layer in enumerate(layers)]


def _rows(x: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return x.reshape(-1, x.shape[-1]).astype(dtype)

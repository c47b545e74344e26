"""Dense layers whose products run on rows: [B * T, D], not [B, T, D]."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from flax_transformer.transformer.ops.int8 import SCALE, product


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
        self.kernel_scale = self.get_variable('params', 'kernel' + SCALE)  # None but where the kernel is of int8
        self.bias = self.param('bias', nn.initializers.zeros, (self.features,), jnp.float32) if self.use_bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., features] of x [..., inputs]."""
        rows = _rows(x, self.dtype)
        if self.kernel_scale is not None:
            return self.finish(product(rows, self.kernel, self.kernel_scale).astype(self.dtype), x)
        return self.finish(_product(rows, self.kernel.astype(self.dtype)), x)

    def finish(self, products: jax.Array, x: jax.Array) -> jax.Array:
        """Adds the bias to rows of products, and gives them the shape of x."""
        if self.bias is not None:
            products = products + self.bias.astype(self.dtype)[None]
        return products.reshape(*x.shape[:-1], self.features)


def side_by_side(x: jax.Array, *layers: Dense) -> list[jax.Array]:
    """Each layer's [..., features] of the same x [..., inputs], in one product: layers of equal shape.

    It pays for many rows: the kernels are laid together at each call.
    """
    if layers[0].kernel_scale is not None:
        return [layer(x) for layer in layers]
    dtype = layers[0].dtype
    # An axis of their own, not one kernel beside the other: where features lie on many devices they stay there.
    kernels = jnp.stack([layer.kernel for layer in layers], axis=1).astype(dtype)
    products = jax.lax.dot_general(_rows(x, dtype), kernels, (((1,), (0,)), ((), ())))
    return [layer.finish(products[:, number], x) for number, layer in enumerate(layers)]


def against_rows(x: jax.Array, table: jax.Array) -> jax.Array:
    """Products [..., V], float32, of x [..., D] with every row of a table [V, D]."""
    size, width = table.shape
    blocks = math.gcd(size, 8)
    if x.ndim == 2 and isinstance(x.shape[0], int) and 1 < x.shape[0] <= 64 and blocks > 1:
        # Few rows, as in decoding: XLA for CPUs is up to 1.6 times as fast with the table in blocks.
        parts = table.reshape(blocks, size // blocks, width)
        products = jnp.einsum('ND,BVD->BNV', x, parts, preferred_element_type=jnp.float32)
        return products.swapaxes(0, 1).reshape(x.shape[0], size)
    return jnp.einsum('...D,VD->...V', x, table, preferred_element_type=jnp.float32)


def _product(rows: jax.Array, kernel: jax.Array) -> jax.Array:
    inputs, features = kernel.shape
    blocks = math.gcd(inputs, 4)
    if isinstance(rows.shape[0], int) and rows.shape[0] == 1 and blocks > 1:
        # A single row, as in greedy decoding: XLA for CPUs is up to 1.8 times as fast where it can add up blocks.
        parts = kernel.reshape(blocks, -1, features)
        sums = jnp.einsum('BD,BDF->BF', rows.reshape(blocks, -1), parts, preferred_element_type=jnp.float32)
        return sums.sum(axis=0, keepdims=True).astype(rows.dtype)
    return rows @ kernel


def _rows(x: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return x.reshape(-1, x.shape[-1]).astype(dtype)

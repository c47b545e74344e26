"""Dense layers against Linen's and NumPy, and side by side."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from tiny_translation import drawn

from flax_transformer.ops.dense import Dense, side_by_side
from flax_transformer.ops.product import product


class Two(nn.Module):
    """Two layers of one input, side by side or one after the other."""

    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32
    together: bool = True

    def setup(self):
        self.a, self.b = (Dense(6, 4, self.use_bias, self.dtype) for _ in range(2))

    def __call__(self, x):
        return side_by_side(x, self.a, self.b) if self.together else [self.a(x), self.b(x)]


def test_names_and_draws_are_linens():
    x, key = np.ones((2, 6), np.float32), jax.random.key(3)
    ours = jax.jit(Dense(6, 4).init)(key, x)
    linens = jax.jit(nn.Dense(4, kernel_init=nn.initializers.glorot_uniform()).init)(key, x)
    assert jax.tree.structure(ours) == jax.tree.structure(linens)
    jax.tree.map(np.testing.assert_array_equal, ours, linens)


@pytest.mark.parametrize('shape', [(6,), (5, 6), (2, 3, 6)])
def test_values_are_x_w_plus_b(shape):
    rng = np.random.default_rng(0)
    x, kernel, bias = rng.normal(size=shape), rng.normal(size=(6, 4)), rng.normal(size=4)
    params = {'kernel': np.float32(kernel), 'bias': np.float32(bias)}
    y = jax.jit(Dense(6, 4).apply)({'params': params}, np.float32(x))
    np.testing.assert_allclose(y, x @ kernel + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(('use_bias', 'dtype'), [(False, jnp.bfloat16), (True, jnp.float32)])
def test_side_by_side_is_one_after_the_other(use_bias, dtype):
    x = np.random.default_rng(0).normal(size=(2, 3, 6)).astype(np.float32)
    params = drawn(jax.eval_shape(Two(use_bias, dtype).init, jax.random.key(1), x))

    def loss(params, x, together):
        values = Two(use_bias, dtype, together).apply(params, x)
        return sum((y * (n + 1)).sum() for n, y in enumerate(values)), values

    compute = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True), static_argnums=2)
    gradients, values = zip(*(jax.device_get(compute(params, x, together)) for together in (True, False)), strict=True)
    tolerance = {'rtol': 1e-5, 'atol': 1e-5} if dtype == jnp.float32 else {'rtol': 2e-2, 'atol': 2e-2}
    assert all(y.dtype == dtype for y in values[0])
    for ours, theirs in (values, gradients):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(np.float32(a), np.float32(b), **tolerance), ours, theirs)


def test_features_that_lie_on_many_devices_stay_there():
    mesh = jax.make_mesh((2,), ('tensor',), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    x = jnp.ones((8, 6))
    shapes = jax.eval_shape(Two(use_bias=False).init, jax.random.key(0), x)
    columns = NamedSharding(mesh, PartitionSpec(None, 'tensor'))
    shardings = jax.tree.map(lambda _: columns, shapes), NamedSharding(mesh, PartitionSpec())
    step = jax.jit(Two(use_bias=False).apply, in_shardings=shardings, out_shardings=[columns, columns])
    text = step.lower(shapes, x).compile().as_text()
    assert 'dot' in text or 'fusion' in text
    for collective in ('all-gather', 'all-reduce', 'all-to-all', 'collective-permute'):
        assert collective not in text


@pytest.mark.parametrize(
    ('shape', 'size'), [((1, 6), 7), ((3, 6), 16), ((65, 6), 16), ((2, 3, 6), 16), ((65, 6), 4099), ((300, 6), 4099)]
)
def test_products_with_the_rows_of_a_table(shape, size):
    """For few rows the table is the left operand."""
    rng = np.random.default_rng(0)
    x, table = rng.normal(size=shape), rng.normal(size=(size, 6))
    found = jax.jit(partial(product, axis=1))(np.float32(x), np.float32(table))
    np.testing.assert_allclose(found, x @ table.T, atol=1e-5)
    halves = x.astype(jnp.bfloat16), table.astype(jnp.bfloat16)
    assert jax.eval_shape(partial(product, axis=1, dtype=jnp.float32), *halves).dtype == jnp.float32


@pytest.mark.parametrize(
    ('inputs', 'features', 'dtype'), [(7, 5, jnp.float32), (256, 512, jnp.bfloat16), (255, 520, jnp.float32)]
)
def test_a_single_row_is_the_same_as_among_others(inputs, features, dtype):
    """It is multiplied in blocks, where the kernel can be cut."""
    x = np.random.default_rng(1).normal(size=(3, inputs)).astype(np.float32)
    layer = Dense(inputs, features, dtype=dtype)
    variables = drawn(jax.eval_shape(layer.init, jax.random.key(0), x))
    alone, among = (np.asarray(jax.jit(layer.apply)(variables, rows)) for rows in (x[1:2], x))
    assert alone.dtype == dtype
    rounding = 1e-5 if dtype == jnp.float32 else 0.05
    np.testing.assert_allclose(np.float32(alone[0]), np.float32(among[1]), atol=rounding)

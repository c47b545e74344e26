"""Parameters drawn by NumPy, for tests that do not care which: a model's own start is compiled first."""

from typing import Any

import jax
import numpy as np


def drawn(shapes: Any, *, seed: int = 0, scale: float = 0.3) -> Any:
    """Returns a tree of arrays of these shapes (as of a family's `parameter_shapes`)."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: (scale * rng.standard_normal(x.shape)).astype(np.float32), shapes)

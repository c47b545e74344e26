"""Vectors on a map: PCA by NumPy, t-SNE by scikit-learn (extra `maps`)."""

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import install_command


def pca(matrix: np.ndarray, *, count: int = 2) -> np.ndarray:
    """[N, count]: vectors [N, D] along the directions in which they differ most; each has its largest value above 0."""
    centred = np.asarray(matrix, np.float64)
    centred = centred - centred.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:count]
    points = centred @ directions.T
    largest = points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])]
    return points * np.where(largest < 0, -1, 1)  # else the sign would be chance


def tsne(matrix: np.ndarray, *, perplexity: float = 30.0, seed: int = 0) -> np.ndarray:
    """[N, 2]: vectors [N, D] so that near ones stay near (van der Maaten and Hinton 2008), by cosine; starts from PCA.

    What is far apart on the map, and how dense it is, means little.

    Args:
      perplexity: some neighbours that each vector has; at most (N - 1) / 3 is used.

    Raises UserError for fewer than four vectors, or if scikit-learn is not installed.
    """
    if len(matrix) < 4:
        raise UserError(f'got {len(matrix)} vectors; expected at least 4 for a map')
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise UserError(f't-SNE needs scikit-learn: {install_command("maps")}') from None
    perplexity = min(perplexity, (len(matrix) - 1) / 3)
    method = TSNE(metric='cosine', init='random', perplexity=perplexity, random_state=seed)
    start = pca(matrix)
    method.set_params(init=(start / start[:, 0].std() * 1e-4).astype(np.float32))
    with threadpool_limits(1):  # threads that wait for each other at every step take minutes on a busy machine
        return method.fit_transform(np.asarray(matrix, np.float32))

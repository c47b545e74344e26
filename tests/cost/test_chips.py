"""What accelerators can do, by the names that JAX gives them."""

from flax_transformer.cost.chips import TPUS, peak_flops


def test_peaks_are_known_by_the_names_that_jax_gives() -> None:
    assert peak_flops('TPU v5 lite') == TPUS['v5e'].flops == 197e12
    assert peak_flops('NVIDIA H100 80GB HBM3') == 989e12
    assert peak_flops('NVIDIA H100 80GB HBM3', 'float32') is None
    assert peak_flops('cpu') is None

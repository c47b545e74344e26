"""Peak rates of accelerators by the names that JAX gives them, from their makers' data sheets.

Nothing here was measured. Chips that are not in the table have no known peak, nor do CPUs.
"""

from typing import NamedTuple


class Chip(NamedTuple):
    """Peak rates of one device as JAX counts them; from TPU v4 on that is a chip."""

    flops: float  # of dense matrix products in bfloat16, FLOP/s; a multiply-add counts as two
    memory: float  # bytes that a program may use
    bandwidth: float  # of that memory, bytes/s
    links: float  # to the other chips of a slice or host, bytes/s sent over all links of one; 0: unknown


# TPUs: cloud.google.com/tpu/docs/v4, v5e, v5p and v6e, "key specifications"; links are half of the bidirectional
# bandwidth given there. Memory is what libtpu 0.0.52 lets a program use: the system keeps a little.
TPUS = {
    'v4': Chip(275e12, 30.75 * 2**30, 1228e9, 300e9),
    'v5e': Chip(197e12, 15.75 * 2**30, 819e9, 200e9),
    'v5p': Chip(459e12, 95.73 * 2**30, 2765e9, 600e9),
    'v6e': Chip(918e12, 31.24 * 2**30, 1638e9, 400e9),
}
_TPU_KINDS = {
    'TPU v4': 'v4',
    'TPU v5 lite': 'v5e',
    'TPU v5e': 'v5e',
    'TPU v5': 'v5p',
    'TPU v5p': 'v5p',
    'TPU v6 lite': 'v6e',
    'TPU v6e': 'v6e',
}

# GPUs: NVIDIA's data sheets of A100 (2021), H100 (2023), H200 (2024), L4 and L40S (2023), B200 (HGX, 2024), Ada
# (GeForce RTX 4090, bfloat16 with float32 accumulation); figures without sparsity. Links: NVLink, one way.
_GPUS = {
    'NVIDIA A100-SXM4-40GB': Chip(312e12, 40e9, 1555e9, 300e9),
    'NVIDIA A100-SXM4-80GB': Chip(312e12, 80e9, 2039e9, 300e9),
    'NVIDIA A100 80GB PCIe': Chip(312e12, 80e9, 1935e9, 0),
    'NVIDIA H100 80GB HBM3': Chip(989e12, 80e9, 3350e9, 450e9),
    'NVIDIA H100 PCIe': Chip(756e12, 80e9, 2000e9, 0),
    'NVIDIA H200': Chip(989e12, 141e9, 4800e9, 450e9),
    'NVIDIA B200': Chip(2250e12, 180e9, 7700e9, 900e9),
    'NVIDIA L4': Chip(121e12, 24e9, 300e9, 0),
    'NVIDIA L40S': Chip(362e12, 48e9, 864e9, 0),
    'NVIDIA GeForce RTX 4090': Chip(165e12, 24e9, 1008e9, 0),
}


def find_chip(device_kind: str) -> Chip | None:
    """The chip named by `jax.Device.device_kind`; None if it is not in the table.

    >>> find_chip('TPU v5 lite').flops
    197000000000000.0
    """
    return TPUS[_TPU_KINDS[device_kind]] if device_kind in _TPU_KINDS else _GPUS.get(device_kind)


def peak_flops(device_kind: str, dtype: str = 'bfloat16') -> float | None:
    """Peak FLOP/s of one device, by its data sheet; None if unknown.

    Only bfloat16 on accelerators is known. In float32 the peak depends on how far products may be rounded, and the name
    of a CPU says little about its speed.
    """
    chip = find_chip(device_kind)
    return chip.flops if chip and dtype == 'bfloat16' else None

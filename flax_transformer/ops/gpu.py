"""What an NVIDIA GPU has."""

import jax


def compute_capability(device: jax.Device) -> float | None:
    """Such as 7.5 of a T4 (Turing), 8.0 of an A100 (Ampere), 9.0 of an H100 (Hopper); None: it is no NVIDIA GPU."""
    capability = getattr(device, 'compute_capability', None)  # AMD's GPUs have names, such as gfx942
    try:
        return float(capability)
    except (TypeError, ValueError):
        return None


def has_bfloat16(device: jax.Device) -> bool:
    """Whether an accelerator multiplies bfloat16: NVIDIA's before Ampere convert it to float32."""
    capability = compute_capability(device)
    return capability is None or capability >= 8

"""WAV files as bytes, sound and damaged ones, for tests."""

import struct

import numpy as np


def tone(seconds: float = 0.5, rate: int = 8000, hz: float = 440.0) -> np.ndarray:
    """A tone at half of full scale, float32."""
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def wav_bytes(
    samples: np.ndarray,
    rate: int = 8000,
    *,
    width: int = 2,
    is_float: bool = False,
    before: bytes = b'',
    declared: int | None = None,
    is_extensible: bool = False,
) -> bytes:
    """A WAV file of samples [T] or [T, channels] in -1..1.

    Args:
      width: bytes of a sample.
      before: chunks between the header and the samples.
      declared: bytes of samples that the header promises; None: as many as there are.
    """
    samples = samples[:, None] if samples.ndim == 1 else samples
    if is_float:
        content = samples.astype(f'<f{width}').tobytes()
    elif width == 1:
        content = np.clip(np.round(samples * 128) + 128, 0, 255).astype(np.uint8).tobytes()
    else:
        most = 2 ** (8 * width - 1)
        integers = np.clip(np.round(samples.astype(float) * most), -most, most - 1).astype('<i8')
        content = integers.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
    block = width * samples.shape[1]
    tag = 3 if is_float else 1
    fields = struct.pack(
        '<HHIIHH', 0xFFFE if is_extensible else tag, samples.shape[1], rate, rate * block % 2**32, block, 8 * width
    )
    if is_extensible:
        fields += struct.pack('<HHIH', 22, 8 * width, 0, tag) + b'\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71'
    chunks = chunk(b'fmt ', fields) + before + chunk(b'data', content, declared)
    return chunk(b'RIFF', b'WAVE' + chunks)


def chunk(name: bytes, content: bytes, declared: int | None = None) -> bytes:
    """A chunk of a RIFF file."""
    size = len(content) if declared is None else declared
    return name + struct.pack('<I', size) + content + b'\0' * (len(content) % 2)

"""The sound, and the settings, whose mel energies tests/fixtures/librosa_mel.npz keeps."""

import numpy as np

# name: sample rate, window and hop in samples, FFT size, mels, lowest and highest frequency
SETTINGS = {
    'narrow': (8000, 200, 80, 256, 40, 20.0, 4000.0),
    'wide': (16000, 400, 160, 512, 80, 0.0, 7600.0),
}


def sound(rate: int) -> np.ndarray:
    """Half a second of a rising tone with a little noise, float32."""
    seconds = np.arange(rate // 2) / rate
    noise = np.random.default_rng(0).normal(size=len(seconds))
    return (0.5 * np.sin(2 * np.pi * (200 + 2000 * seconds) * seconds) + 0.01 * noise).astype(np.float32)

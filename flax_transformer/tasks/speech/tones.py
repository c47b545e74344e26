"""Touch-tones: a generated corpus of the sixteen keys of a telephone, each a pair of sines, under noise.

A key's tone is the sum of one of four low and one of four high frequencies (ITU-T Q.23). Lengths, levels and noise
vary from recording to recording, and pitch by up to 3 % from line to line, the corpus's speakers.
"""

from typing import NamedTuple

import numpy as np

KEYS = '123A456B789C*0#D'
LOW_HZ, HIGH_HZ = (697.0, 770.0, 852.0, 941.0), (1209.0, 1336.0, 1477.0, 1633.0)
LINES = 6
SIZES = {'train': 480, 'validation': 96, 'test': 96}


class Tone(NamedTuple):
    """One press of a key."""

    key: str
    line: str  # as a speaker
    seconds: float


def tone(split: str, index: int) -> Tone:
    """The key, line and length of recording `index` of a split: a pure function of both."""
    generator = _generator(split, index)
    return Tone(KEYS[index % len(KEYS)], f'line{index // len(KEYS) % LINES}', float(generator.uniform(0.1, 0.3)))


def tone_samples(split: str, index: int, rate: int) -> np.ndarray:
    """The samples of a recording at `rate` Hz, float32 [T] in -1..1, with 5 ms of fading at both ends."""
    generator = _generator(split, index)
    seconds = generator.uniform(0.1, 0.3)
    number = KEYS.index(tone(split, index).key)
    pitch = 1 + 0.06 * (index // len(KEYS) % LINES) / (LINES - 1) - 0.03
    time = np.arange(round(seconds * rate)) / rate
    sines = [
        np.sin(2 * np.pi * (hz * pitch * time + generator.uniform()))
        for hz in (LOW_HZ[number // 4], HIGH_HZ[number % 4])
    ]
    fade = np.minimum(1, np.minimum(time, time[::-1]) / 0.005)
    level = 10 ** generator.uniform(-1.2, -0.35)
    noise = 10 ** generator.uniform(-3.0, -1.5) * generator.standard_normal(len(time))
    return np.clip(level * fade * sum(sines) + noise, -1, 1).astype(np.float32)


def _generator(split: str, index: int) -> np.random.Generator:
    return np.random.default_rng([list(SIZES).index(split), index])

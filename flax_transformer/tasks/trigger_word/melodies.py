"""Melodies of three tones, generated: a trigger "word" and others like it, for whoever has no recordings.

All melodies use the same three pitches, do, mi and so of a random key; only their order tells them apart.
"""

import zlib
from collections.abc import Iterator

import numpy as np

from flax_transformer.common.errors import UserError, nearest

PREFIX = 'melodies:'
MELODIES = {
    'rising': (0, 1, 2),
    'falling': (2, 1, 0),
    'valley': (1, 0, 2),
    'hill': (0, 2, 1),
    'dip': (2, 0, 1),
    'drop': (1, 2, 0),
}
SIZES = {'train': 240, 'validation': 60, 'test': 60}
_RATIOS = np.array([1.0, 1.25, 1.5])
_SEED = 1685  # fixed, so that every run holds out the same melodies


def melodies(spec: str, rate: int) -> Iterator[tuple[np.ndarray, str]]:
    """Samples float32 [T] and text of each melody of `melodies:SPLIT`; every third is `rising`.

    Each is a pure function of its split and number. Raises UserError for an unknown split.
    """
    split = spec.removeprefix(PREFIX)
    if split not in SIZES:
        raise UserError(f'{spec}: expected {PREFIX} and one of {", ".join(SIZES)}.{nearest(split, SIZES)}')
    others = [text for text in MELODIES if text != 'rising']
    for number in range(SIZES[split]):
        text = others[(number // 3 * 2 + number % 3) % len(others)] if number % 3 else 'rising'
        yield melody(text, np.random.default_rng([_SEED, zlib.crc32(split.encode()), number]), rate), text


def melody(text: str, generator: np.random.Generator, rate: int) -> np.ndarray:
    """Three tones with overtones, of 0.1 to 0.2 s each, in noise, with some silence around."""
    base = generator.uniform(250.0, 600.0)
    parts = [np.zeros(int(generator.uniform(0.05, 0.3) * rate))]
    for tone in MELODIES[text]:
        count = int(generator.uniform(0.1, 0.2) * rate)
        phase = 2 * np.pi * base * _RATIOS[tone] * np.arange(count) / rate
        sound = sum(np.sin(k * phase + generator.uniform(0, 6)) / k**2 for k in (1, 2, 3))
        parts += [sound * np.hanning(count) ** 0.3, np.zeros(int(generator.uniform(0.0, 0.03) * rate))]
    parts.append(np.zeros(int(generator.uniform(0.05, 0.3) * rate)))
    samples = np.concatenate(parts) * generator.uniform(0.1, 0.6)
    noise = generator.standard_normal(len(samples)) * 10 ** generator.uniform(-4, -2.5)
    return np.clip(samples + noise, -1, 1).astype(np.float32)

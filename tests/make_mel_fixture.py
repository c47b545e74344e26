"""Writes tests/fixtures/librosa_mel.npz: mel filters and mel energies of a generated sound. Needs librosa 0.11.

python tests/make_mel_fixture.py
"""

from pathlib import Path

import librosa
import numpy as np
from mel_sound import SETTINGS, sound

FILE = Path(__file__).parent / 'fixtures' / 'librosa_mel.npz'


def main() -> None:
    arrays = {}
    for name, (rate, window, hop, size, mels, lowest, highest) in SETTINGS.items():
        arrays[f'{name}_filters'] = librosa.filters.mel(sr=rate, n_fft=size, n_mels=mels, fmin=lowest, fmax=highest).T
        # librosa puts the window in the middle of the FFT's frame.
        padding = (size - window) // 2
        samples = np.pad(sound(rate), (padding, size - window - padding))
        arrays[f'{name}_energies'] = librosa.feature.melspectrogram(
            y=samples, sr=rate, n_fft=size, hop_length=hop, win_length=window, window='hann', center=False, power=2.0,
            n_mels=mels, fmin=lowest, fmax=highest,
        ).T  # fmt: skip
    np.savez_compressed(FILE, **arrays)


if __name__ == '__main__':
    main()

"""Generated text, any number of pairs: words of Zipf-like frequencies, sentences of log-normal length.

The target's lengths follow the source's. The same number of pairs is the same text.
"""

from pathlib import Path

import numpy as np

from flax_transformer.config import Config, DataConfig, TrainingConfig, TransformerConfig

LANGUAGES = ('xx', 'yy')
WORDS = 300_000  # each language has as many
LETTERS = np.array(list('etaoinshrdlucmfwypvbgk'))


def make_words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Distinct words, short ones first, as in a language."""
    lengths = np.clip(np.log2(np.arange(2, count + 2)) * 0.75 + rng.normal(0, 1.5, count), 1, 18).astype(int)
    weights = 1 / np.arange(1, len(LETTERS) + 1)
    letters = rng.choice(LETTERS, (count, 18), p=weights / weights.sum())
    return np.array([''.join(row[:n]) for row, n in zip(letters, lengths, strict=True)])


def write_corpus(folder: Path, pairs: int, *, words: float = 12.2, number_every: int = 0) -> None:
    """Writes train.xx and train.yy: a median of 12 words a sentence, a mean of 15, which are some 28 tokens.

    With `number_every` one line in so many ends with its number.
    """
    rng = np.random.default_rng(0)
    sides = [make_words(rng, WORDS) for _ in LANGUAGES]
    frequencies = np.cumsum(1 / np.arange(3, WORDS + 3))
    files = [(folder / f'train.{language}').open('w', encoding='utf-8') for language in LANGUAGES]
    for first in range(0, pairs, 50_000):
        count = min(50_000, pairs - first)
        source = np.clip(rng.lognormal(np.log(words), 0.6, count), 1, 90).astype(int)
        target = np.clip(source * rng.normal(1.05, 0.2, count), 1, 90).round().astype(int)
        for file, vocabulary, lengths in zip(files, sides, (source, target), strict=True):
            drawn = vocabulary[np.searchsorted(frequencies, rng.random(lengths.sum()) * frequencies[-1])].tolist()
            ends = np.cumsum(lengths)
            for number, (begin, end) in enumerate(zip(ends - lengths, ends, strict=True), first):
                ending = f' {number}.\n' if number_every and number % number_every == 0 else '.\n'
                file.write(' '.join(drawn[begin:end]).capitalize() + ending)
    for file in files:
        file.close()


def config(folder: Path, vocab_size: int = 32_000) -> Config:
    """The tiny model that peers were timed with, but for its vocabulary; packed rows of 128 slots."""
    return Config(
        model=TransformerConfig(
            vocab_size=vocab_size, d_model=256, num_heads=4, d_ff=1024, num_encoder_layers=3, num_decoder_layers=3
        ),
        data=DataConfig(
            source_language='xx',
            target_language='yy',
            train='train.{lang}',
            validation='',
            test='',
            root=str(folder),
            cache=str(folder / 'cache'),
        ),
        training=TrainingConfig(tokens_per_step=4096),
    )

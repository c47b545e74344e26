"""What every system gets in the comparisons: sizes of model, and seeded sentences of ids.

Only NumPy is imported: each of the two models wants its own package alone.

Lengths are lognormal, with means of 14 tokens (`tiny`, as Multi30k) and 28 (as WMT), EOS counted; a target is
as long as its source times lognormal(0, 0.12). Ids are spread as words are (Zipf). pad is 0, EOS 2, unk 3.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

PAD, EOS, UNK, FIRST = 0, 2, 3, 4


class Size(NamedTuple):
    """A model and its sentences. Dropout 0.1, tied embeddings, label smoothing 0.1, Adam(0.9, 0.98)."""

    d_model: int
    d_ff: int
    num_heads: int
    layers: int  # the encoder has as many, and so has the decoder
    vocab_size: int
    mean_length: float
    deviation: float  # how far logarithms of lengths deviate
    longest: int
    buckets: tuple[int, ...]  # lengths that padded batches are filled up to
    tokens_per_batch: int  # slots of the target, in training
    single: int  # sentences that are translated one by one


SIZES = {
    'tiny': Size(256, 1024, 4, 3, 8_000, 14.0, 0.33, 40, (8, 12, 16, 24, 40), 4096, 12),
    'base': Size(512, 2048, 8, 6, 32_000, 28.0, 0.58, 100, (16, 24, 32, 48, 64, 100), 2048, 8),
    # Accelerators get batches as large as the paper's.
    'wmt_base': Size(512, 2048, 8, 6, 32_000, 28.0, 0.58, 100, (16, 24, 32, 48, 64, 100), 24_576, 8),
    'wmt_big': Size(1024, 4096, 16, 6, 32_000, 28.0, 0.58, 100, (16, 24, 32, 48, 64, 100), 24_576, 8),
}


def our_config(size: Size, **fields: Any):
    from flax_transformer.config import TransformerConfig

    return TransformerConfig(
        vocab_size=size.vocab_size,
        d_model=size.d_model,
        d_ff=size.d_ff,
        num_heads=size.num_heads,
        num_encoder_layers=size.layers,
        num_decoder_layers=size.layers,
        pad_id=PAD,
        eos_id=EOS,
        **fields,
    )


def marian_config(size: Size, **fields: Any):
    """Its padding is the last id."""
    from transformers import MarianConfig

    pad = size.vocab_size - 1
    return MarianConfig(
        vocab_size=size.vocab_size,
        d_model=size.d_model,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        activation_function='relu',
        scale_embedding=True,
        init_std=size.d_model**-0.5,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        **fields,
    )


class Pair(NamedTuple):
    source: np.ndarray  # ids, EOS last
    target: np.ndarray


def lengths(size: Size, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of sources and targets, EOS counted."""
    mu = np.log(size.mean_length) - size.deviation**2 / 2
    source = np.clip(np.rint(np.exp(mu + size.deviation * rng.standard_normal(count))), 4, size.longest)
    target = np.clip(np.rint(source * np.exp(0.12 * rng.standard_normal(count))), 4, size.longest)
    return source.astype(int), target.astype(int)


def sentence(length: int, vocab_size: int, rng: np.random.Generator) -> np.ndarray:
    """Ids: the n-th word comes 1/n as often as the first."""
    kinds = vocab_size - 1 - FIRST  # the last id is left for Marian's padding
    rank = np.exp(rng.random(length) * np.log(kinds)).astype(np.int64)
    ids = FIRST + np.minimum(rank - 1, kinds - 1)
    ids[-1] = EOS
    return ids.astype(np.int32)


def padded_batches(size: Size, count: int, seed: int = 1) -> list[list[Pair]]:
    """`count` batches of pairs of about one length, `tokens_per_batch` slots each, as often short as in an epoch."""
    rng = np.random.default_rng(seed)
    sources, targets = lengths(size, int(40 * size.tokens_per_batch / size.mean_length), rng)
    bucket = np.searchsorted(size.buckets, np.maximum(sources, targets))
    batches = []
    for number, width in enumerate(size.buckets):
        members = np.flatnonzero(bucket == number)
        rows = size.tokens_per_batch // width
        batches += [members[i : i + rows] for i in range(0, len(members) - rows + 1, rows)]
    chosen = [batches[int((i + 0.5) * len(batches) / count)] for i in range(count)]
    made = lambda length: sentence(length, size.vocab_size, rng)
    return [[Pair(made(sources[i]), made(targets[i])) for i in members] for members in chosen]


def padded(sentences: list[np.ndarray], width: int) -> np.ndarray:
    """[sentences, width] ids."""
    out = np.full((len(sentences), width), PAD, np.int32)
    for row, ids in zip(out, sentences, strict=True):
        row[: len(ids)] = ids
    return out


def width_of(batch: list[Pair], size: Size) -> int:
    """The bucket that a batch is filled up to."""
    longest = max(len(ids) for pair in batch for ids in pair)
    return next(width for width in size.buckets if width >= longest)


class Batch(NamedTuple):
    """Sentences to translate into exactly `length` ids, none of them special: so all do the same work."""

    sources: list[np.ndarray]  # ids, EOS last
    slots: int  # that a program of static shapes pads the sources to
    length: int

    def padded(self, slots: int | None = None) -> np.ndarray:
        """Returns sources [B, slots or the longest]."""
        return padded(self.sources, slots or max(map(len, self.sources)))


def decoding_batches(size: Size, rows: int) -> list[Batch]:
    """Returns batches of `rows` sentences by length: the quantiles of its distribution."""
    rng = np.random.default_rng(2)
    draws = np.sort(lengths(size, 20_000, rng)[0])
    count = size.single if rows == 1 else rows
    sentences = [sentence(draws[int((i + 0.5) * len(draws) / count)], size.vocab_size, rng) for i in range(count)]
    bucket = lambda length: next(slots for slots in size.buckets if length <= slots)
    groups = [sentences[i : i + rows] for i in range(0, count, rows)]
    return [
        Batch(group, bucket(max(map(len, group))), bucket(int(np.ceil(np.mean([len(ids) for ids in group])))))
        for group in groups
    ]


def training_step(trainer: Any, vocab_size: int, length: int) -> Callable[[], None]:
    """Returns a function that makes a step of our trainer, on rows of sentences of `length` random ids."""
    import jax

    shapes = trainer.task.batch_shapes()
    ids = np.random.default_rng(0).integers(FIRST, vocab_size, shapes.source.shape, dtype=np.int32)
    places = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    sides = {'': ids, '_segments': places // length + 1, '_positions': places % length}
    batch = shapes._replace(**{f'{side}{name}': x for side in ('source', 'target') for name, x in sides.items()})
    state = trainer.init_state()

    def step() -> None:
        nonlocal state
        state, _ = trainer.step(state, batch)
        jax.block_until_ready(state)

    return step

"""How large a model a corpus can feed, and for how long to train it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flax_transformer.tasks.translation.corpus_facts import Facts, Pieces


class Tier(NamedTuple):
    """Sizes for corpora of up to so many pairs."""

    name: str
    pairs: float
    d_model: int
    num_heads: int
    d_ff: int
    layers: int
    dropout_rate: float
    vocab_size: int
    tokens_per_step: int
    epochs: int
    learning_rate: float
    why: str


TIERS = (
    Tier(
        *('tiny', 100_000, 128, 4, 256, 4, 0.3, 10_000, 2048, 25, 2e-3),
        'Transformer-Tiny of Wu et al. 2021 (arXiv 2105.14462): on 29,000 pairs larger models score worse',
    ),
    Tier(
        *('small', 1_000_000, 256, 4, 1024, 4, 0.2, 16_000, 4096, 15, 1e-3),
        "half the base model's width: the base model overfits on fewer than a million pairs",
    ),
    Tier(
        *('base', math.inf, 512, 8, 2048, 6, 0.1, 32_000, 24_576, 10, 7e-4),
        'the base model of Vaswani et al. 2017 (table 3)',
    ),
)
FILL = 0.95  # share of a packed row that tokens take
ROWS = (64, 128, 256)  # slots of a row
LEFT_OUT = 0.002  # share of pairs that may be too long for a row
FEW_STEPS = 3000  # a model learns little in fewer: then batches are halved, and passes added up to this
MOST_EPOCHS = 100


@dataclass(frozen=True)
class Sizes:
    """What a config says about size and length."""

    tier: Tier
    vocab_size: int
    row: int  # slots, of source and target
    steps: int
    warmup_steps: int
    evaluate_every: int
    ema_decay: float
    epochs: float
    left_out: float  # share of the pairs that are longer than a row


def tier_of(pairs: int) -> Tier:
    """The sizes that fit a number of pairs.

    >>> [tier_of(pairs).name for pairs in (29_000, 160_000, 4_500_000)]
    ['tiny', 'small', 'base']
    """
    return next(tier for tier in TIERS if pairs < tier.pairs)


def sizes_of(facts: Facts, pieces: Pieces, *, held_out: int = 0) -> Sizes:
    """The sizes for a corpus: steps are epochs times its target tokens, divided by those of a step.

    If that makes few steps, batches are smaller, and passes more. `held_out` of the pairs are not for training.
    """
    tier = tier_of(facts.pairs)
    long = np.quantile(pieces.lengths.max(0), 1 - LEFT_OUT)
    row = next((row for row in ROWS if long <= row), ROWS[-1])
    tokens = (facts.pairs - held_out) * pieces.per_pair[1]
    steps = tier.epochs * tokens / (tier.tokens_per_step * FILL)
    if steps < FEW_STEPS:
        tier = tier._replace(tokens_per_step=tier.tokens_per_step // 2)
        steps = max(2 * steps, min(FEW_STEPS, 2 * steps * MOST_EPOCHS / tier.epochs))
    steps = max(200, _rounded(steps))
    return Sizes(
        tier,
        pieces.vocab_size,
        row,
        steps,
        warmup_steps=min(4000, max(50, _rounded(steps / 10))),
        evaluate_every=max(50, _rounded(steps / 10)),
        ema_decay=0.999 if steps >= 3000 else 0.99,
        epochs=steps * tier.tokens_per_step * FILL / tokens,
        left_out=float((pieces.lengths.max(0) > row).mean()),
    )


def _rounded(number: float) -> int:
    """With two digits, as a person would write it.

    >>> _rounded(6873)
    6900
    """
    return int(round(number, 1 - math.floor(math.log10(max(number, 1)))))

"""A config of a fitting size: how large a model a corpus can feed, for how long to train it, and its text."""

import math
import shlex
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flax_transformer.tasks.translation.corpus_facts import Facts, Pieces

FILL = 0.95  # share of a packed row that tokens take
ROWS = (64, 128, 256)  # slots of a row
LEFT_OUT = 0.002  # share of pairs that may be too long for a row
FEW_STEPS = 3000  # a model learns little in fewer: then batches are halved, and passes added up to this
MOST_EPOCHS = 100


class Tier(NamedTuple):
    """Sizes for corpora of fewer than `pairs` pairs."""

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


@dataclass(frozen=True)
class Sizes:
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


_TEXT = '''\
"""{languages[0]} to {languages[1]}: {facts.pairs:,} pairs of {files}.

    flax-transformer check {name}
    flax-transformer train {name} --workdir runs/{stem}

{facts.words[0]:,} source and {facts.words[1]:,} target words. Nobody has trained this config yet: when you have, write
down here what it scored, on what machine, and how long it took.
"""

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TrainingConfig,
    TransformerConfig,
)


def get_config() -> Config:
    return Config(
        # {why}.
        model=TransformerConfig(
            vocab_size={sizes.vocab_size},  # {why_vocab}
            d_model={tier.d_model},
            num_heads={tier.num_heads},
            d_ff={tier.d_ff},
            num_encoder_layers={tier.layers},
            num_decoder_layers={tier.layers},
            dropout_rate={tier.dropout_rate},  # less for more text, more for less
        ),
        data=DataConfig(
            source_language={languages[0]!r},
            target_language={languages[1]!r},
            train={corpora.train!r},
            validation={corpora.validation!r},{no_validation}
            test={corpora.test!r},
            # Slots of a packed row; {sizes.left_out:.1%} of the pairs are longer and are left out.
            source_length={sizes.row},
            target_length={sizes.row},
        ),
        # The rate rises to its peak, then falls to 0 at the last step.
        optimizer=OptimizerConfig(
            schedule='linear',
            learning_rate={tier.learning_rate},
            warmup_steps={sizes.warmup_steps},
            ema_decay={sizes.ema_decay},
        ),
        training=TrainingConfig(
            steps={sizes.steps},  # some {sizes.epochs:.0f} passes over the text; more may help, at the price of time
            tokens_per_step={tier.tokens_per_step},
            log_every=50,
            evaluate_every={sizes.evaluate_every},
            checkpoint_every={sizes.evaluate_every},
        ),
        # A longer line is split into parts of what the model has seen.
        decoding=DecodingConfig(alpha=1.0, max_source_tokens={sizes.row}),
    )
'''


@dataclass(frozen=True)
class Corpora:
    train: str
    validation: str
    test: str


def config_text(name: str, files: str, languages: tuple[str, str], corpora: Corpora, facts: Facts, sizes: Sizes) -> str:
    wanted = sizes.tier.vocab_size
    short = f'shared pieces; {wanted} would be usual, but this text has too few characters for them'
    long = 'shared pieces, learned from both sides'
    return _TEXT.format(
        name=_in_docstring(shlex.quote(name)),
        stem=_in_docstring(shlex.quote(name.rpartition('/')[2].removesuffix('.py'))),
        files=_in_docstring(files),
        languages=languages,
        corpora=corpora,
        facts=facts,
        sizes=sizes,
        tier=sizes.tier,
        why=sizes.tier.why[0].upper() + sizes.tier.why[1:],
        why_vocab=long if sizes.vocab_size >= wanted else short,
        no_validation='' if corpora.validation else '  # none: the last checkpoint counts as the best',
    )


def _in_docstring(text: str) -> str:
    return text.replace('\\', '\\\\').replace('"', '\\"')

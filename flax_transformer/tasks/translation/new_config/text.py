"""The text of a new config."""

import shlex
from dataclasses import dataclass

from flax_transformer.tasks.translation.corpus_facts import Facts
from flax_transformer.tasks.translation.new_config.sizes import Sizes

_TEXT = '''\
"""{source_language} to {target_language}: {pairs:,} pairs of {files}.

    flax-transformer check {name}
    flax-transformer train {name} --workdir runs/{stem}

{words_source:,} source and {words_target:,} target words. Nobody has trained this config yet: when you have, write
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
            vocab_size={vocab_size},  # {why_vocab}
            d_model={tier.d_model},
            num_heads={tier.num_heads},
            d_ff={tier.d_ff},
            num_encoder_layers={tier.layers},
            num_decoder_layers={tier.layers},
            dropout_rate={tier.dropout_rate},  # less for more text, more for less
        ),
        data=DataConfig(
            source_language={source_language!r},
            target_language={target_language!r},
            train={train!r},
            validation={validation!r},{no_validation}
            test={test!r},
            # Slots of a packed row; {left_out} of the pairs are longer and are left out.
            source_length={row},
            target_length={row},
        ),
        # The rate rises to its peak, then falls to 0 at the last step.
        optimizer=OptimizerConfig(
            schedule='linear', learning_rate={tier.learning_rate}, warmup_steps={warmup_steps}, ema_decay={ema_decay}
        ),
        training=TrainingConfig(
            steps={steps},  # some {epochs:.0f} passes over the text; more may help, at the price of time
            tokens_per_step={tier.tokens_per_step},
            log_every=50,
            evaluate_every={evaluate_every},
            checkpoint_every={evaluate_every},
        ),
        # A longer line is split into parts of what the model has seen.
        decoding=DecodingConfig(alpha=1.0, max_source_tokens={row}),
    )
'''


@dataclass(frozen=True)
class Corpora:
    """The corpora of a config, by name."""

    train: str
    validation: str
    test: str


def config_text(name: str, files: str, languages: tuple[str, str], corpora: Corpora, facts: Facts, sizes: Sizes) -> str:
    """The Python source of a config."""
    wanted = sizes.tier.vocab_size
    short = f'shared pieces; {wanted} would be usual, but this text has too few characters for them'
    long = 'shared pieces, learned from both sides'
    no_validation = '' if corpora.validation else '  # none: the last checkpoint counts as the best'
    return _TEXT.format(
        name=_in_docstring(shlex.quote(name)),
        stem=_in_docstring(shlex.quote(name.rpartition('/')[2].removesuffix('.py'))),
        files=_in_docstring(files),
        source_language=languages[0],
        target_language=languages[1],
        pairs=facts.pairs,
        words_source=facts.words[0],
        words_target=facts.words[1],
        why=sizes.tier.why[0].upper() + sizes.tier.why[1:],
        why_vocab=long if sizes.vocab_size >= wanted else short,
        tier=sizes.tier,
        train=corpora.train,
        validation=corpora.validation,
        test=corpora.test,
        no_validation=no_validation,
        left_out=f'{sizes.left_out:.1%}',
        **{
            field: getattr(sizes, field)
            for field in ('vocab_size', 'row', 'steps', 'warmup_steps', 'evaluate_every', 'ema_decay', 'epochs')
        },
    )


def _in_docstring(text: str) -> str:
    return text.replace('\\', '\\\\').replace('"', '\\"')

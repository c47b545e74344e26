"""What benchmarks/kill.py trains."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from flax_transformer.config import (
    Config,
    CorpusConfig,
    DataConfig,
    OptimizerConfig,
    ParallelConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)

PARALLEL = {'pmap': ParallelConfig('pmap'), 'mesh': ParallelConfig('mesh'), 'fsdp': ParallelConfig('mesh', fsdp=2)}
CORPORA = {'one': 400, 'two': 150, 'validation': 20}  # pairs


def everything_on(folder: Path, steps: int, *, strategy: str = 'pmap', num_devices: int = 2) -> Config:
    """A tiny model with all that must be resumed; its corpora are written into the folder."""
    rng = np.random.default_rng(0)
    for name, pairs in CORPORA.items():
        lines = [' '.join(rng.choice(list('abcdefgh'), rng.integers(2, 8))) for _ in range(pairs)]
        for language in ('in', 'out'):
            file = folder / f'{name}.{language}'
            if not file.exists():
                file.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
    return Config(
        model=TransformerConfig(
            vocab_size=20,
            d_model=16,
            num_heads=2,
            d_ff=32,
            num_encoder_layers=1,
            num_decoder_layers=1,
            attention_dropout_rate=0.1,
            activation_dropout_rate=0.1,
        ),
        tokenizer=TokenizerConfig(byte_fallback=False),
        data=DataConfig(
            source_language='in',
            target_language='out',
            mixture=(
                CorpusConfig('one', 'one.{lang}', 'validation.{lang}', weight=2.0),
                CorpusConfig('two', 'two.{lang}', '', weight=1.0),
            ),
            root=str(folder),
            source_length=32,
            target_length=32,
            block_size=100,  # sentences: a block ends within every life
            bpe_dropout=0.1,
        ),
        optimizer=OptimizerConfig(schedule='inverse_sqrt', learning_rate=1e-2, warmup_steps=25, ema_decay=0.9),
        training=TrainingConfig(
            steps=steps,
            tokens_per_step=256,
            log_every=5,
            evaluate_every=3,
            checkpoint_every=2,
            keep_last=1,
            r_drop_alpha=1.0,
            sample_translations=0,
            draw_attention=False,
        ),
        parallel=replace(PARALLEL[strategy], num_devices=num_devices, max_tokens_per_device=64),  # two passes
    )

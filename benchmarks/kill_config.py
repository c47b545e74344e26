"""What benchmarks/kill.py trains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
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
from flax_transformer.engine.losses import cross_entropy
from flax_transformer.tasks.translation import task

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


class TableTask(task.TranslationTask):
    """Translation by a table of vectors: the last token's and the mean of the source's give the next."""

    def init(self, key: jax.Array) -> dict[str, Any]:
        shape = (self._model_config.vocab_size, self.d_model)
        return {'embedding': {'table': jax.random.normal(key, shape)}, 'norm': {'scale': jnp.ones(self.d_model)}}

    def loss(self, params: dict[str, Any], batch: Any, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        table, weights = params['embedding']['table'], (batch.target_segments > 0).astype(jnp.float32)
        hidden = table[jnp.roll(batch.target, 1, axis=1)] + table[batch.source].mean(axis=1, keepdims=True)
        if key is not None:
            hidden = hidden * jax.random.bernoulli(key, 0.9, hidden.shape)
        loss, nll = cross_entropy((hidden * params['norm']['scale']) @ table.T, batch.target, label_smoothing=0.1)
        sums = {'nll': (nll * weights).sum(), 'target_tokens': weights.sum()}
        for number, name in enumerate(corpus.name for corpus in self._data.corpora):
            of_corpus = weights * ((0 if batch.corpora is None else batch.corpora) == number)
            sums |= {f'nll/{name}': (nll * of_corpus).sum(), f'target_tokens/{name}': of_corpus.sum()}
        return (loss * weights).sum(), sums | {'source_tokens': (batch.source_segments > 0).sum()}


def table_instead_of_transformer() -> None:
    """Makes this process train TableTask."""
    task.TranslationTask = TableTask

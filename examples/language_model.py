"""A language model over bytes, the characters of plain English; docs/how-to/tasks.md explains the parts of this file.

    flax-transformer train examples/language_model.py --workdir runs/language --text text.txt
    flax-transformer evaluate runs/language
    python examples/language_model.py runs/language 'The '

2.59 bits a byte on the last tenth of 754,151 bytes of Wikipedia for Schools (schools_wiki/valid.txt), one seed, after
2.7 CPU minutes on two busy cores (x86-64 with AVX-512). It then writes: The Statem that the Aristotle of the ...
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer import UserError
from flax_transformer.engine.config import LoopConfig, OptimizerConfig, TaskConfig
from flax_transformer.engine.losses import cross_entropy
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.task import Task
from flax_transformer.ops.embedding import Embedding
from flax_transformer.transformer.attention import causal_mask
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.encoder import Encoder
from flax_transformer.transformer.layers import Positions


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(TaskConfig):
    task: ClassVar[str] = 'language'
    text: str = 'text.txt'  # its last tenth is the validation set
    length: int = 64  # bytes that the model reads at most
    rows: int = 32  # pieces of the text in a batch
    model: TransformerConfig = TransformerConfig(
        vocab_size=256, d_model=128, num_heads=4, d_ff=512, num_encoder_layers=2, norm_first=True, dtype='float32'
    )
    optimizer: OptimizerConfig = OptimizerConfig(schedule='cosine', learning_rate=2e-3, warmup_steps=100)
    training: LoopConfig = LoopConfig(steps=2500, log_every=100, evaluate_every=500, checkpoint_every=500)


class Model(nn.Module):
    """Bytes [B, T] to logits [B, T, 256], each row from the bytes up to its own position."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, tokens: jax.Array, *, deterministic: bool = True) -> jax.Array:
        config, length = self.config, tokens.shape[1]
        embedding = Embedding(config.vocab_size, config.d_model, config.pad_id)
        x = Positions(config.d_model)(embedding(tokens), jnp.arange(length), length)
        return embedding.logits(Encoder(config)(x, causal_mask(length), deterministic=deterministic))


class LanguageTask(Task):
    Config = LanguageConfig
    counts = ('bytes',)

    def __init__(self, config: LanguageConfig) -> None:
        self.config, self.model = config, Model(config.model)
        self.rows_per_step, self.slots_per_row = config.rows, config.length

    def prepare(self) -> np.ndarray:
        text = np.frombuffer(Path(self.config.text).read_bytes(), np.uint8)
        if len(text) < 20 * self.config.length:
            raise UserError(f'{self.config.text} has {len(text)} bytes, too few for pieces of {self.config.length}')
        return text

    def batch(self, prepared: np.ndarray, number: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([self.config.seed, number])
        last = len(prepared) * 9 // 10 - self.config.length
        return self._pieces(prepared, rng.integers(last, size=self.config.rows))

    def validation(self, prepared: np.ndarray) -> list[dict[str, np.ndarray]]:
        starts = np.arange(len(prepared) * 9 // 10, len(prepared) - self.config.length, self.config.length)
        batches = np.split(starts, range(self.config.rows, len(starts), self.config.rows))
        return [self._pieces(prepared, batch) for batch in batches]

    def _pieces(self, text: np.ndarray, starts: np.ndarray) -> dict[str, np.ndarray]:
        pieces = text[starts[:, None] + np.arange(self.config.length + 1)].astype(np.int32)
        return {'pieces': pieces, 'weight': np.ones(len(starts), np.float32)}

    def init(self, key: jax.Array) -> Any:
        return self.model.init(key, jnp.zeros((1, self.config.length), jnp.int32))['params']

    def loss(self, params: Any, batch: dict[str, jax.Array], key: jax.Array | None) -> Any:
        read, targets = batch['pieces'][:, :-1], batch['pieces'][:, 1:]
        rngs = {} if key is None else {'dropout': key}
        logits = self.model.apply({'params': params}, read, deterministic=key is None, rngs=rngs)
        losses, _ = cross_entropy(logits, targets, label_smoothing=0.0)
        return (losses.sum(axis=1) * batch['weight']).sum(), {'bytes': batch['weight'].sum() * self.config.length}

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        loss = sums['loss'] / sums['bytes']
        return {'loss': loss, 'bits_per_byte': loss / np.log(2)}


RECIPE = declare(LanguageTask)
get_config = LanguageConfig


def sample(run: str, text: str, count: int = 300, temperature: float = 0.5) -> str:
    """The text continued by `count` bytes; likely ones are drawn more often than the model says."""
    config, params = RECIPE.load(run)
    logits = jax.jit(Model(config.model).apply)
    written = list(text.encode().rjust(config.length))
    for number in range(count):
        scores = logits({'params': params}, np.array([written[-config.length :]]))[0, -1]
        written.append(int(jax.random.categorical(jax.random.key(number), scores / temperature)))
    return bytes(written).decode(errors='replace').strip()


if __name__ == '__main__':
    print(sample(*sys.argv[1:]))

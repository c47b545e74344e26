"""A language model over the bytes of a text, which are its characters wherever it is plain English.

A Transformer reads a text and says which byte comes next. docs/how-to/tasks.md explains the parts of this file.

    flax-transformer train examples/language_model.py --workdir runs/language --text text.txt
    flax-transformer evaluate runs/language
    python examples/language_model.py runs/language 'The ' --temperature 0.5

Hardware: two CPU cores (x86-64 with AVX-512), busy. Time: 3.5 CPU minutes. Score: 2.52 bits per character of the last
tenth of 754,151 bytes of Wikipedia for Schools (that of configs/skip_gram.py, schools_wiki/valid.txt), one seed; 2.99
after a fifth of the steps. What the third command writes then begins with

    The land the later of such as the are is assenday an in the projects of the state who the produce of his feell
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer import UserError
from flax_transformer.common.fields import setting
from flax_transformer.engine.config import LoopConfig, OptimizerConfig, TaskConfig
from flax_transformer.engine.losses import cross_entropy
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.task import Task
from flax_transformer.ops.embedding import Embedding
from flax_transformer.ops.product import resolve_dtype
from flax_transformer.transformer.attention import causal_mask
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.encoder import Encoder
from flax_transformer.transformer.layers import Positions

MODEL = TransformerConfig(
    vocab_size=256,
    d_model=128,
    num_heads=4,
    d_ff=512,
    num_encoder_layers=2,
    norm_first=True,
    dropout_rate=0.0,
)
OPTIMIZER = OptimizerConfig(schedule='cosine', learning_rate=2e-3, warmup_steps=100)
TRAINING = LoopConfig(steps=2500, log_every=100, evaluate_every=500, checkpoint_every=500)


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(TaskConfig):
    task: ClassVar[str] = 'language'
    text: str = setting('text.txt', 'resumable')  # a file; it may move, but a run goes on only with the same text
    held_out: float = 0.1  # share of the text, its end, that is the validation set
    length: int = 64  # bytes that the model reads at most
    rows: int = 32  # pieces of the text in a batch
    model: TransformerConfig = MODEL
    optimizer: OptimizerConfig = OPTIMIZER
    training: LoopConfig = TRAINING


class Text(NamedTuple):
    train: np.ndarray  # [N] bytes
    validation: np.ndarray


class Model(nn.Module):
    """Bytes [B, T] to logits [B, T, 256], each row from the bytes up to its own position."""

    config: TransformerConfig

    @nn.compact
    def __call__(self, tokens: jax.Array, *, deterministic: bool = True) -> jax.Array:
        config = resolve_dtype(self.config)
        length = tokens.shape[1]
        embedding = Embedding(config.vocab_size, config.d_model, config.pad_id)
        x = Positions(config.d_model)(embedding(tokens), jnp.arange(length), length)
        return embedding.logits(Encoder(config)(x, causal_mask(length), deterministic=deterministic))


class LanguageTask(Task):
    Config = LanguageConfig
    counts = ('bytes',)

    def __init__(self, config: LanguageConfig) -> None:
        self.config = config
        self.model = Model(config.model)
        self.rows_per_step = config.rows
        self.slots_per_row = config.length

    def prepare(self) -> Text:
        text = np.frombuffer(Path(self.config.text).read_bytes(), np.uint8)
        train, validation = np.split(text, [round(len(text) * (1 - self.config.held_out))])
        if min(len(train), len(validation)) <= self.config.length:
            raise UserError(f'{self.config.text} has {len(text)} bytes, too few for pieces of {self.config.length}')
        return Text(train, validation)

    def batch(self, prepared: Text, number: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([self.config.seed, number])
        return self._pieces(
            prepared.train, rng.integers(len(prepared.train) - self.config.length, size=self.config.rows)
        )

    def validation(self, prepared: Text) -> Any:
        starts = np.arange(0, len(prepared.validation) - self.config.length, self.config.length)
        for first in range(0, len(starts), self.config.rows):
            yield self._pieces(prepared.validation, starts[first : first + self.config.rows])

    def _pieces(self, text: np.ndarray, starts: np.ndarray) -> dict[str, np.ndarray]:
        """The pieces of a text that begin at `starts`, a byte longer than what the model reads."""
        pieces = text[starts[:, None] + np.arange(self.config.length + 1)]
        return {'pieces': pieces.astype(np.int32), 'weight': np.ones(len(starts), np.float32)}

    def init(self, key: jax.Array) -> Any:
        return self.model.init(key, jnp.zeros((1, self.config.length), jnp.int32))['params']

    def loss(self, params: Any, batch: dict[str, jax.Array], key: jax.Array | None) -> Any:
        read, targets = batch['pieces'][:, :-1], batch['pieces'][:, 1:]
        rngs = {} if key is None else {'dropout': key}
        logits = self.model.apply({'params': params}, read, deterministic=key is None, rngs=rngs)

        losses, _ = cross_entropy(logits, targets, label_smoothing=0.0)
        weight = jnp.broadcast_to(batch['weight'][:, None], targets.shape)
        begins_character = (targets & 0b1100_0000) != 0b1000_0000  # UTF-8: all bytes but a character's later ones
        return (losses * weight).sum(), {'bytes': weight.sum(), 'characters': (begins_character * weight).sum()}

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {
            'loss': sums['loss'] / sums['bytes'],
            'bits_per_character': sums['loss'] / sums['characters'] / np.log(2),
        }


RECIPE = declare(LanguageTask)
get_config = LanguageConfig


def sample(run: str, text: str, *, count: int, temperature: float) -> str:
    """The text continued by `count` bytes, drawn from what a run has learned."""
    config, params = RECIPE.load(run)
    rng = np.random.default_rng(0)
    logits = jax.jit(Model(config.model).apply)

    written = list(text.encode())
    for _ in range(count):
        read = written[-config.length :]
        padded = np.array([read + [0] * (config.length - len(read))])  # one shape is compiled once
        scores = np.asarray(logits({'params': params}, padded)[0, len(read) - 1])
        written.append(int(np.argmax(scores / temperature + rng.gumbel(size=scores.shape))))
    return bytes(written).decode(errors='replace')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=sample.__doc__)
    parser.add_argument('run')
    parser.add_argument('text')
    parser.add_argument('--count', type=int, default=300)
    parser.add_argument('--temperature', type=float, default=0.7)
    print(sample(**vars(parser.parse_args())))

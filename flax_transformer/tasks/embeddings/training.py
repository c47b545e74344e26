"""How word vectors are trained."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.engine.batches import with_empty_rows
from flax_transformer.engine.task import Params, Share, Sums, Task
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation, held_out

from . import word2vec
from .batches import TrainingBatches
from .blocks import Blocks, PathBlocks, TextBlocks
from .config import EmbeddingsConfig
from .glove import Pairs, init_glove, sums_of_block, update_block
from .preparation import Prepared, keep, prepare_run

_UPDATES = {
    ('skip_gram', 'negative_sampling'): word2vec.skip_gram,
    ('skip_gram', 'hierarchical_softmax'): word2vec.skip_gram_tree,
    ('cbow', 'negative_sampling'): word2vec.cbow,
    ('cbow', 'hierarchical_softmax'): word2vec.cbow_tree,
}


class _TaskOfBlocks(Task):
    """Each block updates the rows of its words before the next reads them; `sums` are a block's, with its loss."""

    def __init__(self, config: EmbeddingsConfig) -> None:
        self.rows_per_step = config.training.blocks_per_step
        self.slots_per_row = config.training.block_size
        self.row_name = f'{config.training.block_size} {self.counts[0]}'
        self._config = config.model

    def update(
        self, params: Params, memory: Any, batch: Any, key: jax.Array, *, learning_rate: jax.Array, share: Share
    ) -> tuple[Params, Any, Sums]:
        def one_block(state: tuple[Params, Any], block: Any) -> tuple[tuple[Params, Any], Sums]:
            return self.updated(*state, block, learning_rate, share)

        (params, memory), sums = jax.lax.scan(one_block, (params, memory), batch)
        return params, memory, jax.tree.map(jnp.sum, sums)

    def loss(self, params: Params, batch: Any, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        sums = jax.tree.map(jnp.sum, jax.lax.map(partial(self.sums, params), batch))
        return sums.pop('loss'), sums

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return {'loss': sums['loss'] / max(sums[self.counts[0]], 1.0)}


class Word2VecTask(_TaskOfBlocks):
    slot_name = 'word_slots'
    counts = ('words', 'predictions')

    def __init__(self, config: EmbeddingsConfig) -> None:
        super().__init__(config)
        self._updates = partial(_UPDATES[config.model.method, config.model.output], config=config.model)

    def init(self, key: jax.Array) -> Params:
        return word2vec.init_tables(self._config, key)

    def updated(
        self, params: Params, memory: Any, block: TextBlocks, rate: jax.Array, share: Share
    ) -> tuple[tuple[Params, Any], Sums]:
        updates, sums = self._updates(params, block, rate)
        return (word2vec.apply_updates(params, share(updates)), memory), sums

    def sums(self, params: Params, block: TextBlocks) -> Sums:
        return self._updates(params, block, 1.0)[1]

    def batch_shapes(self) -> TextBlocks:
        size = self.slots_per_row

        def shape(dtype: Any, *columns: int) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.rows_per_step, *columns), dtype)

        words = shape(jnp.int32, size + 2 * self._config.window)
        reach = shape(jnp.int8, size)
        if self._config.output == 'negative_sampling':
            return Blocks(words, reach, reach, shape(jnp.int32, size))
        # How long the longest path is depends on the counts, which are not known here.
        path = (size, self._config.vocab_size.bit_length() + 4)
        return PathBlocks(words, reach, reach, shape(jnp.int32, *path), shape(jnp.int8, *path))


class GloVeTask(_TaskOfBlocks):
    slot_name = 'pair_slots'
    counts = ('pairs',)

    def init(self, key: jax.Array) -> Params:
        return init_glove(self._config, key)

    def init_memory(self, params: Params) -> Params:
        return jax.tree.map(jnp.ones_like, params)

    def updated(
        self, params: Params, memory: Params, block: Pairs, rate: jax.Array, share: Share
    ) -> tuple[tuple[Params, Params], Sums]:
        *tables, sums = update_block(params, memory, block, rate=rate, x_max=self._config.x_max, share=share)
        return tuple(tables), sums

    def sums(self, params: Params, block: Pairs) -> Sums:
        return sums_of_block(params, block, self._config.x_max)

    def batch_shapes(self) -> Pairs:
        shape = (self.rows_per_step, self.slots_per_row)
        ids = jax.ShapeDtypeStruct(shape, jnp.int32)
        return Pairs(ids, ids, jax.ShapeDtypeStruct(shape, jnp.float32))


class EmbeddingsValidation(Validation):
    predicts = False

    def __init__(self, config: EmbeddingsConfig, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._blocks = prepared.validation

    def batches(self) -> Iterator[TextBlocks]:
        rows = self.trainer.task.rows_per_step
        for first in range(0, len(self._blocks.words), rows):
            part = type(self._blocks)(*(x[first : first + rows] for x in self._blocks))
            yield with_empty_rows(part, rows)


def _make_task(config: EmbeddingsConfig, devices: Any) -> Task:
    return GloVeTask(config) if config.model.method == 'glove' else Word2VecTask(config)


def training() -> Training:
    return Training(
        make_task=_make_task,
        prepare=prepare_run,
        keep=keep,
        fingerprint=lambda config, prepared: prepared.fingerprint,
        batches=lambda config, prepared, trainer: TrainingBatches(config, prepared.train, trainer.own_rows),
        validation=held_out(EmbeddingsValidation),
    )

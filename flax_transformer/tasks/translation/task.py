"""Translation as a task of the engine."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.loss import automatic_chunk, loss_sums
from flax_transformer.tasks.translation.model import family_of


class TranslationTask(Task):
    """The config's model and its loss on packed rows of sentence pairs (`data.bitext.batches.Batch`)."""

    slot_name = 'target_slots'
    counts = ('target_tokens', 'source_tokens')

    def __init__(self, config: Config, *, row_parts: int = 1, platform: str | None = None) -> None:
        """`row_parts`: the number of devices over which the rows that `loss` sees are split; `platform`: theirs."""
        self._family = family_of(config.model)
        self.sharding_rules = self._family.sharding_rules
        self.rows_per_step, self.slots_per_row = config.rows_per_step, config.data.target_length
        self.d_model, self.dtype = config.model.d_model, config.model.dtype
        self.row_name = f'{config.data.source_length} + {config.data.target_length} slots'
        self._model_config, self._data = config.model, config.data
        self._row_flops = self._family.forward_flops(config.model, config.data.source_length, config.data.target_length)
        passes = 2 if config.training.r_drop_alpha else 1
        self.flops_per_step = 3 * passes * config.rows_per_step * self._row_flops.total  # forward, and twice backward
        self._loss = partial(
            loss_sums,
            model=self._family.make(config.model, remat=config.parallel.remat == 'layers'),
            label_smoothing=config.training.label_smoothing,
            corpora=tuple(corpus.name for corpus in config.data.corpora),
            loss_chunk=row_parts * (config.parallel.loss_chunk or automatic_chunk(config.model, platform)),
        )
        self._r_drop_alpha = config.training.r_drop_alpha

    def flops_per_slot(self) -> dict[str, float]:
        return self._row_flops.times(1 / self.slots_per_row)._asdict()

    def init(self, key: jax.Array) -> Params:
        return self._family.init_params(self._model_config, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        return self._loss(params, batch, key, r_drop_alpha=self._r_drop_alpha)

    def absorb(self, params: Params, statistics: Any) -> Params:
        return self._family.absorb(params, statistics)

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return per_token(sums)

    def batch_shapes(self) -> Batch:
        data, rows = self._data, self.rows_per_step
        source, target = (
            jax.ShapeDtypeStruct((rows, slots), jnp.int32) for slots in (data.source_length, data.target_length)
        )
        return Batch(source, target, source, target, source, target, target if len(data.corpora) > 1 else None)


def per_token(sums: dict[str, float]) -> dict[str, float]:
    """Loss and negative log-likelihood per target token, and perplexity, from their sums.

    Also the negative log-likelihood of each corpus, if there are several, and the divergence of R-Drop's two passes.
    """
    count = max(sums['target_tokens'], 1.0)
    nll = sums['nll'] / count
    of_corpora = {
        name: value / sums[name.replace('nll/', 'target_tokens/', 1)]
        for name, value in sums.items()
        if name.startswith('nll/') and sums[name.replace('nll/', 'target_tokens/', 1)]
    }
    return {
        'loss': sums['loss'] / count,
        'nll': nll,
        'perplexity': math.exp(min(nll, 80.0)),
        'target_tokens': sums['target_tokens'],
        **({'kl': sums['kl'] / count} if 'kl' in sums else {}),
        **of_corpora,
    }


def with_dtype(config: Config, platform: str | None = None) -> Config:
    """The config with the dtype that `auto` stands for on a platform; None: JAX's default."""
    return replace(config, model=family_of(config.model).resolve_dtype(config.model, platform))

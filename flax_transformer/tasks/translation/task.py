"""Translation as a task of the engine; its loss is cross-entropy summed over the target tokens of packed rows."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.losses import cross_entropy, sums_in_chunks, symmetric_divergence
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.ops.dropout import drawn_once
from flax_transformer.ops.embedding import padded_output, with_piece_multiple
from flax_transformer.ops.product import resolve_dtype, round_once
from flax_transformer.transformer.model import shift_right

from .config import Config, ModelConfig
from .model import TranslationModel, family_of, start_id


class TranslationTask(Task):
    slot_name = 'target_slots'
    counts = ('target_tokens', 'source_tokens')

    def __init__(self, config: Config, *, row_parts: int = 1, platform: str | None = None) -> None:
        """The rows that `loss` sees are split over `row_parts` devices of the `platform`."""
        self._family = family_of(config.model)
        self.sharding_rules = self._family.sharding_rules
        self.rows_per_step = config.rows_per_step
        self.slots_per_row = config.data.target_length
        self.d_model = config.model.d_model
        self.dtype = config.model.dtype
        self.row_name = f'{config.data.source_length} + {config.data.target_length} slots'
        self._config = config
        self._row_flops = self._family.forward_flops(config.model, config.data.source_length, config.data.target_length)
        passes = 2 if config.training.r_drop_alpha else 1
        self.flops_per_step = 3 * passes * config.rows_per_step * self._row_flops.total  # forward, and twice backward
        self._loss = partial(
            loss_sums,
            model=self._family.make(config.model, remat=config.parallel.remat == 'layers', platform=platform),
            label_smoothing=config.training.label_smoothing,
            corpora=tuple(corpus.name for corpus in config.data.corpora),
            loss_chunk=row_parts * (config.parallel.loss_chunk or automatic_chunk(config.model, platform)),
            r_drop_alpha=config.training.r_drop_alpha,
            piece_multiple=_piece_multiple(config, platform),
        )

    def flops_per_slot(self) -> dict[str, float]:
        return self._row_flops.times(1 / self.slots_per_row)._asdict()

    def init(self, key: jax.Array) -> Params:
        return self._family.init_params(self._config.model, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        return self._loss(params, batch, key)

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        return per_token(sums)

    def batch_shapes(self) -> Batch:
        data = self._config.data
        lengths = data.source_length, data.target_length
        source, target = (jax.ShapeDtypeStruct((self.rows_per_step, length), jnp.int32) for length in lengths)
        return Batch(source, target, source, target, source, target, target if len(data.corpora) > 1 else None)


def per_token(sums: dict[str, float]) -> dict[str, float]:
    """Loss, negative log-likelihood (also by corpus), perplexity and R-Drop's divergence, per target token."""
    count = max(sums['target_tokens'], 1.0)
    nll = sums['nll'] / count
    means = {'loss': sums['loss'] / count, 'nll': nll, 'perplexity': math.exp(min(nll, 80.0))}
    means['target_tokens'] = sums['target_tokens']
    if 'kl' in sums:
        means['kl'] = sums['kl'] / count
    for name, value in sums.items():
        kind, _, corpus = name.partition('/')
        if kind == 'nll' and corpus and sums[f'target_tokens/{corpus}']:
            means[name] = value / sums[f'target_tokens/{corpus}']
    return means


def with_dtype(config: Config, platform: str | None = None) -> Config:
    """The config with the dtype that `auto` stands for on a platform."""
    return replace(config, model=family_of(config.model).resolve_dtype(config.model, platform))


def loss_sums(
    params: Params,
    batch: Batch,
    dropout_key: jax.Array | None,
    *,
    model: TranslationModel,
    label_smoothing: float,
    corpora: Sequence[str] = (),
    loss_chunk: int = 0,
    r_drop_alpha: float = 0.0,
    piece_multiple: int = 1,
) -> tuple[jax.Array, Sums]:
    """The smoothed loss summed over the batch's target tokens, in nats; the unsmoothed one (`nll`) and token counts.

    No dropout without a key. If the batch has the corpora of its tokens, adds both by name. The logits of only
    `loss_chunk` target slots are in memory at once (0: `automatic_chunk`).

    `r_drop_alpha` adds a second pass with other dropout (R-Drop, Liang et al. 2021, eq. 4, halved to compare with one
    pass): the mean of both cross-entropies + alpha / 2 times the symmetric divergence, whose sum is `kl`.

    Logits are computed for a multiple of `piece_multiple` pieces; those that the vocabulary lacks are left out.
    """
    keys = (dropout_key,)
    if r_drop_alpha and dropout_key is not None:
        keys = tuple(jax.random.split(dropout_key))
    passes = tuple(hidden_states(params, batch, key, model) for key in keys)
    weights = (batch.target_segments > 0).astype(jnp.float32)
    num_pieces = model.config.vocab_size_of_target
    wide_config = with_piece_multiple(model.config, piece_multiple)
    wide_model = model if wide_config == model.config else model.clone(config=wide_config)
    output = padded_output(model.config, params, wide_config.vocab_size_of_target)
    names, numbers = ((), jnp.zeros_like(batch.target)) if batch.corpora is None else (corpora, batch.corpora)

    def sums_of_chunk(params: Params, hidden: tuple[jax.Array, ...], data: Any) -> tuple[jax.Array, Sums]:
        targets, weights, numbers = data
        project = partial(wide_model.apply, {'params': params}, method='project')
        logits = [project(states)[..., :num_pieces] for states in hidden]
        losses = [cross_entropy(own, targets, label_smoothing=label_smoothing) for own in logits]
        loss, nll = losses[0] if len(losses) == 1 else (sum(values) / 2 for values in zip(*losses, strict=True))
        total = (loss * weights).sum()
        sums = {'nll': (nll * weights).sum(), 'target_tokens': weights.sum()}
        for number, name in enumerate(names):
            own_weights = weights * (numbers == number)
            sums[f'nll/{name}'] = (nll * own_weights).sum()
            sums[f'target_tokens/{name}'] = own_weights.sum()
        if len(logits) == 2:
            sums['kl'] = (symmetric_divergence(*logits) * weights).sum()
            total += r_drop_alpha / 2 * sums['kl']
        return total, sums

    loss, sums = sums_in_chunks(
        sums_of_chunk,
        round_once(output, resolve_dtype(model.config).dtype),
        passes,
        (batch.target, weights, numbers),
        width=max(1, (loss_chunk or automatic_chunk(model.config)) // len(batch.target) // len(keys)),
    )
    return loss, sums | {'source_tokens': (batch.source_segments > 0).sum()}


def hidden_states(params: Params, batch: Batch, dropout_key: jax.Array | None, model: TranslationModel) -> jax.Array:
    """The decoder states [B, T, D] that logits are projected from."""
    return model.apply(
        {'params': params},
        batch.source,
        shift_right(batch.target, start_id(model), batch.target_positions),
        source_segments=batch.source_segments,
        target_segments=batch.target_segments,
        source_positions=batch.source_positions,
        target_positions=batch.target_positions,
        deterministic=dropout_key is None,
        rngs=None if dropout_key is None else {'dropout': drawn_once(dropout_key)},
        method='hidden',
    )


def automatic_chunk(config: ModelConfig, platform: str | None = None) -> int:
    """Target slots whose logits are in memory at once: as many as fit into 32 MB, but at least 1,024.

    On CPUs 8 MB and 256 slots, which caches hold. On GPUs 512 MB: each chunk reads and writes the gradient of the whole
    table, which TPUs keep on the chip.
    """
    platform = platform or jax.default_backend()
    slots, logits = {'cpu': (256, 2**21), 'tpu': (1024, 2**23)}.get(platform, (1024, 2**27))
    return max(slots, logits // config.vocab_size_of_target)


def _piece_multiple(config: Config, platform: str | None) -> int:
    """Of how many pieces the logits are a multiple: on GPUs 64, as XLA would pad each chunk's gradient to 16 or 32."""
    is_whole = config.parallel.fsdp == config.parallel.tensor == 1  # padding a table that is split takes exchanges
    return 64 if platform == 'gpu' and is_whole else 1

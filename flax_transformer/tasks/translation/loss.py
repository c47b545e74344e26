"""The loss of translation: cross-entropy summed over the target tokens of packed rows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.losses import cross_entropy, sums_in_chunks, symmetric_divergence
from flax_transformer.engine.task import Params, Sums
from flax_transformer.tasks.translation.config import ModelConfig
from flax_transformer.tasks.translation.model import TranslationModel, family_of
from flax_transformer.transformer.model import shift_right


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
) -> tuple[jax.Array, Sums]:
    """The smoothed loss summed over the batch's target tokens, in nats; the unsmoothed one (`nll`) and token counts.

    No dropout without a key. If the batch has the corpora of its tokens, adds `nll` and the count of each of `corpora`
    by name. The logits of only `loss_chunk` target slots are in memory at once (0: `automatic_chunk`).

    `r_drop_alpha` adds a second pass with other dropout and the divergence of their predictions (R-Drop, Liang et al.
    2021, eq. 4, halved to compare with one pass: the mean of both cross-entropies + alpha / 2 times the symmetric
    divergence). `kl` is the sum of that divergence.

    If the model has batch norms, `statistics` are what they saw in all passes (`Task.absorb`).
    """
    keys = (dropout_key,)
    if r_drop_alpha and dropout_key is not None:
        keys = tuple(jax.random.split(dropout_key))
    passes = [_hidden(params, batch, key, model) for key in keys]
    weights = (batch.target_segments > 0).astype(jnp.float32)
    numbers = jnp.zeros_like(batch.target) if batch.corpora is None else batch.corpora
    sums_of = partial(
        _sums_of_chunk,
        model=model,
        label_smoothing=label_smoothing,
        corpora=() if batch.corpora is None else corpora,
        r_drop_alpha=r_drop_alpha,
    )
    loss, sums = sums_in_chunks(
        sums_of,
        {name: params[name] for name in family_of(model.config).output_names(model.config)},
        tuple(hidden for hidden, _ in passes),
        (batch.target, weights, numbers),
        width=max(1, (loss_chunk or automatic_chunk(model.config)) // len(batch.target) // len(keys)),
    )
    statistics = jax.tree.map(lambda *of_passes: sum(of_passes), *(seen for _, seen in passes))
    if jax.tree.leaves(statistics):
        sums['statistics'] = statistics
    return loss, sums | {'source_tokens': (batch.source_segments > 0).sum()}


def _hidden(
    params: Params, batch: Batch, dropout_key: jax.Array | None, model: TranslationModel
) -> tuple[jax.Array, Any]:
    """The decoder states [B, T, D] that logits are projected from, and what the model sowed among its statistics."""
    hidden, sown = model.apply(
        {'params': params},
        batch.source,
        shift_right(batch.target, model.config.pad_id, batch.target_positions),
        source_segments=batch.source_segments,
        target_segments=batch.target_segments,
        source_positions=batch.source_positions,
        target_positions=batch.target_positions,
        deterministic=dropout_key is None,
        rngs=None if dropout_key is None else {'dropout': dropout_key},
        method='hidden',
        mutable=['statistics'],
    )
    return hidden, sown.get('statistics', {})


def _sums_of_chunk(
    params: Params,
    hidden: tuple[jax.Array, ...],
    data: tuple[jax.Array, jax.Array, jax.Array],
    *,
    model: TranslationModel,
    label_smoothing: float,
    corpora: Sequence[str],
    r_drop_alpha: float,
) -> tuple[jax.Array, Sums]:
    """The loss and sums of some positions, from the decoder states of one pass or of R-Drop's two."""
    targets, weights, numbers = data
    logits = [model.apply({'params': params}, of_pass, method='project') for of_pass in hidden]
    losses = [cross_entropy(of_pass, targets, label_smoothing=label_smoothing) for of_pass in logits]
    loss, nll = losses[0] if len(losses) == 1 else (sum(each) / 2 for each in zip(*losses, strict=True))
    total = (loss * weights).sum()
    sums = {'nll': (nll * weights).sum(), 'target_tokens': weights.sum()}
    for number, name in enumerate(corpora):
        of_corpus = weights * (numbers == number)
        sums[f'nll/{name}'], sums[f'target_tokens/{name}'] = (nll * of_corpus).sum(), of_corpus.sum()
    if len(logits) == 2:
        sums['kl'] = (symmetric_divergence(*logits) * weights).sum()
        total += r_drop_alpha / 2 * sums['kl']
    return total, sums


def automatic_chunk(config: ModelConfig, platform: str | None = None) -> int:
    """Target slots whose logits are in memory at once: as many as fit into 32 MB, but at least 1,024.

    On CPUs 8 MB and 256 slots, which caches hold. `platform` is that of the devices; None: of those here.
    """
    slots, logits = (256, 2**21) if (platform or jax.default_backend()) == 'cpu' else (1024, 2**23)
    return max(slots, logits // config.vocab_size_of_target)

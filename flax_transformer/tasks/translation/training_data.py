"""The data of a run: prepared and kept beside it, and made into batches."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from flax_transformer.data.bitext.batches import PackedBatches, loss_batches
from flax_transformer.data.bitext.cache import PreparedPairs
from flax_transformer.data.bitext.plan import Plan, Sampling
from flax_transformer.data.order import Order, shares
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.runs.run_directory import CACHE, RunDirectory
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.preparation import (
    Prepared,
    check_corpora,
    prepare,
    refuse_changed_files,
    tag_of,
)
from flax_transformer.tasks.translation.validation import of_each_corpus
from flax_transformer.text.tokenizer import Tokenizer


def open_run(config: Config, run: RunDirectory, *, processes: int = 1, tokenizer: Tokenizer | None = None) -> Prepared:
    """Prepares the data of a run and keeps its config and tokenizer, after all of it was found good.

    A new run trains its tokenizer, unless one is given.
    """
    is_new = not run.has_tokenizer()
    tokenizer = tokenizer if is_new else run.read_tokenizer()
    if is_new and config.check.before_training:
        check_corpora(config, say=say, processes=processes)
    refuse_changed_files(config, run.read_data_files())  # before they replace what was made of the old ones
    with run.data_cache(config) as cache:
        prepared = prepare(config, tokenizer, cache, say=say)
        if prepared.validation:
            corpora = of_each_corpus(config, prepared.validation)
            loss_batches(corpora, config.model, config.data, num_rows=1)  # refuses what is too long
        run.open(config)
        run.write_data_files(prepared.files)
        if not run.has_tokenizer():
            run.write_tokenizer(prepared.tokenizer)
    return prepared


def join_run(config: Config, run: RunDirectory) -> Prepared:
    """What process 0 has prepared, read by another."""
    cache = Path(config.data.cache).expanduser() if config.data.cache else run.path / CACHE
    return prepare(config, run.read_tokenizer(), cache, say=say)


def training_batches(config: Config, prepared: Prepared, devices: Devices | None = None) -> PackedBatches:
    """The batches of a run, from its first one on: of several processes, those rows that this one's devices take."""
    data = config.data
    sizes = [len(pairs) for pairs in prepared.corpora]
    mixed = shares(sizes, [corpus.weight for corpus in data.corpora], data.mixture_temperature)
    alpha = data.bpe_dropout or data.unigram_alpha
    tags = [prepared.tokenizer.tag_id(tag_of(config, corpus)) for corpus in data.corpora]
    slots = {'source_slots': data.source_length, 'target_slots': data.target_length}
    plan = Plan(
        prepared.corpora,
        Order(sizes, mixed, block_size=data.block_size, seed=config.seed),
        **slots,
        seed=config.seed,
        sampling=Sampling(prepared.tokenizer, alpha, tags) if alpha else None,
    )
    rows = config.rows_per_step
    own = devices.own_rows(rows) if devices else slice(0, rows)
    share = own.stop - own.start
    part = {'process': own.start // share, 'num_processes': rows // share}
    return PackedBatches(plan, num_rows=rows, **slots, pad_id=config.model.pad_id, **part)


def fingerprint_of(corpora: Sequence[PreparedPairs]) -> str:
    """Of all ids that are trained on, and their order: the data position means nothing on others."""
    return hashlib.sha256('\n'.join(pairs.fingerprint for pairs in corpora).encode()).hexdigest()

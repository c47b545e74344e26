"""How a translation model is trained, and on what batches."""

import hashlib
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.batches import PackedBatches
from flax_transformer.data.bitext.packing import PackingPlan, Sampling
from flax_transformer.data.bitext.workers import default_workers
from flax_transformer.data.order import Order, shares
from flax_transformer.data.vector_files import with_pretrained
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.validation import held_out

from .calibration import calibrate
from .config import Config
from .inference.quality import FEWEST
from .inference.translator import Translator
from .model import family_of, source_table
from .preparation import Prepared, interleaved, keep, prepare_run
from .run import Run
from .task import TranslationTask, with_dtype
from .validation import TranslationValidation


class TrainingData(PackedBatches):
    def __init__(self, config: Config, prepared: Prepared, devices: Devices | None = None) -> None:
        """Starts at the first batch; with several processes, has the rows of this one's devices."""
        data = config.data
        sizes = [len(pairs) for pairs in prepared.corpora]
        mixed = shares(sizes, [corpus.weight for corpus in data.corpora], data.mixture_temperature)
        alpha = data.bpe_dropout or data.unigram_alpha
        tags = [prepared.tokenizer.tag_id(data.tag_of(corpus)) for corpus in data.corpora]
        slots = {'source_slots': data.source_length, 'target_slots': data.target_length}
        plan = PackingPlan(
            prepared.corpora,
            Order(sizes, mixed, block_size=data.block_size, seed=config.seed),
            **slots,
            seed=config.seed,
            sampling=Sampling(prepared.tokenizer, alpha, tags) if alpha else None,
        )
        rows = config.rows_per_step
        own = devices.own_rows(rows) if devices else None
        workers = default_workers(sum(sizes), is_drawn=bool(alpha)) if data.workers is None else data.workers
        super().__init__(plan, num_rows=rows, **slots, pad_id=config.model.pad_id, own_rows=own, workers=workers)
        self.name = ', '.join(corpus.train for corpus in data.corpora)
        self._size = sum(sizes)
        self._corpora = [corpus.name for corpus in data.corpora]

    def epoch(self, position: Any) -> float:
        """The sentences drawn before a position, by all there are: in a mixture, epochs weighted by size."""
        return position['sentences'] / self._size

    def describe(self, position: Any) -> dict[str, Any]:
        """The sentences of the batch at a position, by their numbers in each corpus, from 1."""
        return {'sentences': dict(zip(self._corpora, self.sentences(position), strict=True))}


def _make_task(config: Config, devices: Devices) -> TranslationTask:
    platform = devices.devices[0].platform
    return TranslationTask(with_dtype(config, platform), row_parts=devices.row_parts_per_step, platform=platform)


def _initial_params(config: Config, prepared: Prepared) -> Any:
    if prepared.pretrained is None:
        return None
    params = family_of(config.model).init_params(config.model, jax.random.key(config.seed))
    embedding = params[source_table(config.model)]
    embedding['table'] = with_pretrained(embedding['table'], prepared.pretrained)
    return params


def _calibrate(run: Run, config: Config, prepared: Prepared) -> None:
    """Calibrates quality on the validation sets; a run that cannot be calibrated is good all the same."""
    chosen = interleaved(prepared.validation, config.training.calibrate_on)
    if len(chosen) < FEWEST:
        return
    sets = []
    for own in prepared.validation:
        lines = [(own.pairs.sources[i], own.pairs.targets[i]) for owner, i in chosen if owner is own]
        if lines:
            languages = {'source_language': own.source_language, 'target_language': own.tag}
            sets.append((languages, *zip(*lines, strict=True)))
    try:
        calibration = calibrate(Translator.from_run(run.path), sets)
        calibration.write(run.path)
        say(f'quality is calibrated on {calibration.num_sentences:,} sentences of the validation set')
    except UserError as error:
        say(f'quality is not calibrated: {error}')


def _fingerprint_of(config: Config, prepared: Prepared) -> str:
    fingerprints = '\n'.join(pairs.fingerprint for pairs in prepared.corpora)
    return hashlib.sha256(fingerprints.encode()).hexdigest()


def training() -> Training:
    return Training(
        make_task=_make_task,
        prepare=prepare_run,
        keep=keep,
        finish=_calibrate,
        fingerprint=_fingerprint_of,
        batches=lambda config, prepared, trainer: TrainingData(config, prepared, trainer.devices),
        validation=held_out(TranslationValidation),
        initial_params=_initial_params,
    )

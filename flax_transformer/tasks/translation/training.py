"""How a translation model is trained and validated."""

import hashlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import install_command
from flax_transformer.data.bitext.batches import Batch, PackedBatches, loss_batches
from flax_transformer.data.bitext.config import DataConfig, is_made
from flax_transformer.data.bitext.packing import PackingPlan, Sampling
from flax_transformer.data.bitext.sources import open_training
from flax_transformer.data.bitext.workers import default_workers
from flax_transformer.data.order import Order, shares
from flax_transformer.data.vector_files import with_pretrained
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.devices.multihost import broadcast, is_first, say
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation, held_out
from flax_transformer.ops.fastest_dtype import is_bfloat16_faster
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.model import with_fastest_attention

from .calibration import calibrate
from .config import Config
from .inference.programs import Programs
from .inference.quality import FEWEST
from .inference.translator import Translator
from .learning.memory import SAMPLED, Pair, write_sample
from .metrics import make_metrics, note_on
from .model import family_of, source_table
from .preparation import Prepared, ValidationSet, interleaved, keep, of_each_corpus, prepare_run
from .run import Run
from .task import TranslationTask, with_dtype


class TrainingData(PackedBatches):
    def __init__(self, config: Config, prepared: Prepared, devices: Devices | None = None) -> None:
        """Starts at the first batch; with several processes, has the rows of this one's devices."""
        data = config.data
        sizes = [len(pairs) for pairs in prepared.corpora]
        mixed = shares(sizes, [corpus.weight for corpus in data.corpora], data.mixture_temperature)
        alpha = data.bpe_dropout or data.unigram_alpha
        tags = [prepared.tokenizer.beginning(data.tag_of(corpus)) for corpus in data.corpora]
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
        self.is_made = all(is_made(corpus.train) for corpus in data.corpora)
        self._size = sum(sizes)
        self._corpora = [corpus.name for corpus in data.corpora]

    def epoch(self, position: Any) -> float:
        """The sentences drawn before a position, by all there are: in a mixture, epochs weighted by size."""
        return position['sentences'] / self._size

    def describe(self, position: Any) -> dict[str, Any]:
        """The numbers, from 1, of the sentences of the batch at a position, in each corpus."""
        return {'sentences': dict(zip(self._corpora, self.sentences(position), strict=True))}


Translated = dict[tuple[str, int], str]  # translations by name of the set and index of the sentence


class TranslationValidation(Validation):
    """Scores the validation sets, and translates as `flax-transformer translate` would, for BLEU and for samples."""

    def __init__(self, config: Config, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._config = config
        self._tokenizer = prepared.tokenizer
        self._sets = prepared.validation

        count = config.training.evaluate_bleu
        self._scored = interleaved(self._sets, sys.maxsize if count is None else count)
        self._samples = interleaved(self._sets, config.training.sample_translations)
        self.predicts = bool(self._scored or self._samples)

        self._programs: Programs | None = None
        self._can_draw = config.training.draw_attention
        self._is_explained = False

    def batches(self) -> Sequence[Batch]:
        config = self._config
        return loss_batches(
            of_each_corpus(config.data, self._sets),
            config.model,
            config.data,
            num_rows=config.rows_per_step,
            multiple_of=len(self.trainer.devices),
        )

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, Any]:
        try:
            return self._translate_and_score(step, params, reporter)
        finally:
            if self._programs:
                self._programs.runner.release()  # training needs the memory

    def _translate_and_score(self, step: int, params: Params, reporter: Reporter) -> dict[str, Any]:
        translated = self._translate(params)
        for number, (own, i) in enumerate(self._samples, start=1):
            source, translation = own.pairs.sources[i], translated[own.name, i]
            reporter.sample(step, number, source=source, reference=own.pairs.targets[i], translation=translation)
            if number == 1 and self._can_draw:
                self._draw(self._translator_of(params, own), step, source, translation, reporter)

        scores = self._score(translated)
        if scores and not self._is_explained:
            self._is_explained = True
            notes = [note_on(own.tokens, own.pairs.targets) for own in self._sets]
            for note in dict.fromkeys([f'BLEU is {scores["bleu_signature"]}', *filter(None, notes)]):
                reporter.say(note)
        return scores

    def _translate(self, params: Params) -> Translated:
        translated: Translated = {}
        for own in self._sets:
            chosen = sorted({i for owner, i in (*self._scored, *self._samples) if owner is own})
            if chosen:
                translations = self._translator_of(params, own)([own.pairs.sources[i] for i in chosen])
                for i, translation in zip(chosen, translations, strict=True):
                    translated[own.name, i] = translation.text
        return translated

    def _translator_of(self, params: Params, own: ValidationSet) -> Translator:
        """The run's translator, compiled once, with these parameters and the languages of a set."""
        config = self._config
        translator = Translator(
            config.model,
            params,
            self._tokenizer,
            replace(config.decoding, target_language=own.tag, literals='ignored'),
            parallel=config.parallel,
            source_language=own.source_language,
            target_language=own.target_language,
            programs=self._programs,
        )
        self._programs = translator.programs
        return translator

    def _draw(self, translator: Translator, step: int, line: str, translation: str, reporter: Reporter) -> None:
        """Draws the attention over a sample for TensorBoard; without matplotlib, says so once."""
        from .inspection import attention_png

        try:
            reporter.picture(step, 'attention', attention_png(translator, line, translation))
        except ImportError:
            reporter.say(f'no pictures of attention: matplotlib is not installed: {install_command("plots")}')
            self._can_draw = False

    def _score(self, translated: Translated) -> dict[str, Any]:
        """BLEU; with several sets, that of each and their mean, since they may be in different languages."""
        bleu: dict[str, float] = {}
        signatures: dict[str, str] = {}
        for own in self._sets:
            chosen = [i for owner, i in self._scored if owner is own]
            if chosen:
                metric = make_metrics(own.tokens)['bleu']
                lines = [translated[own.name, i] for i in chosen]
                bleu[f'bleu/{own.name}'] = metric.corpus_score(lines, [[own.pairs.targets[i] for i in chosen]]).score
                signatures[own.name] = str(metric.get_signature())
        if not bleu:
            return {}

        signature, *others = set(signatures.values())
        if others:
            signature = '; '.join(map(' '.join, signatures.items()))
        scores = {'bleu': sum(bleu.values()) / len(bleu), **(bleu if len(bleu) > 1 else {})}
        return {**scores, 'bleu_sentences': len(self._scored), 'bleu_signature': signature}


def _begin(config: Config, run: Run) -> Config:
    """The config with the dtype of steps that its run began with; a new run's is chosen for this machine."""
    training = config.training
    if training.cpu_dtype != 'auto':
        return config
    if run.exists():
        dtype = run.read_config().training.cpu_dtype  # auto: it began in the dtype of the platform
    else:
        dtype = broadcast('training.cpu_dtype', _fastest_dtype(config) if is_first() else None)
    return replace(config, training=replace(training, cpu_dtype=dtype))


def _fastest_dtype(config: Config) -> str:
    model = config.model
    can_gain = isinstance(model, TransformerConfig) and model.dtype == 'auto' and model.d_model >= 256
    if can_gain and jax.default_backend() == 'cpu' and is_bfloat16_faster():
        say('training in bfloat16, which this CPU multiplies faster')
        return 'bfloat16'
    return 'auto'


def _make_task(config: Config, devices: Devices) -> TranslationTask:
    platform = devices.devices[0].platform
    if isinstance(config.model, TransformerConfig):
        config = replace(config, model=with_fastest_attention(config.model, devices.devices[0]))
    if platform == 'cpu' and config.model.dtype == 'auto' and config.training.cpu_dtype != 'auto':
        config = replace(config, model=replace(config.model, dtype=config.training.cpu_dtype))
    return TranslationTask(with_dtype(config, platform), row_parts=devices.row_parts_per_step, platform=platform)


def _initial_params(config: Config, prepared: Prepared) -> Any:
    if prepared.pretrained is None:
        return None
    params = family_of(config.model).init_params(config.model, jax.random.key(config.seed))
    embedding = params[source_table(config.model)]
    embedding['table'] = with_pretrained(embedding['table'], prepared.pretrained)
    return params


def _calibrate(run: Run, config: Config, prepared: Prepared) -> None:
    """Calibrates quality on the validation sets; a run that cannot be calibrated is good all the same.

    Every process translates, for they read a checkpoint together; the first writes.
    """
    chosen = interleaved(prepared.validation, config.training.calibrate_on)
    if len(chosen) < FEWEST:
        return
    sets = []
    for own in prepared.validation:
        languages = {'source_language': own.source_language, 'target_language': own.tag}
        lines = [(own.pairs.sources[i], own.pairs.targets[i]) for owner, i in chosen if owner is own]
        if lines:
            sets.append((languages, *zip(*lines, strict=True)))
    try:
        calibration = calibrate(Translator.from_run(run.path), sets)
        if is_first():
            calibration.write(run.path)
        say(f'quality is calibrated on {calibration.num_sentences:,} sentences of the validation set')
    except UserError as error:
        say(f'quality is not calibrated: {error}')


def _finish(run: Run, config: Config, prepared: Prepared) -> None:
    if is_first():
        try:
            write_sample(run.path, _trained_pairs(config.data))
        except UserError as error:  # the corpora have gone meanwhile; the run is good all the same
            say(f'no pairs of the training are kept, which learning from corrections needs: {error}')
    # Last, as it takes minutes: the next start repeats it if it is stopped.
    _calibrate(run, config, prepared)


def _trained_pairs(data: DataConfig) -> Iterator[Pair]:
    """Yields pairs of each corpus in turn, evenly spaced in its first chunk."""
    columns = []
    for corpus in data.corpora:
        pairs = next(open_training(corpus, data)[0].pairs())
        every = -(-len(pairs) * len(data.corpora) // SAMPLED)
        source, target = corpus.languages
        lines = zip(pairs.sources[::every], pairs.targets[::every], strict=True)
        columns.append([Pair(*line, source or data.source_language, target or data.target_language) for line in lines])
    for row in itertools.zip_longest(*columns):
        yield from (pair for pair in row if pair and all(map(str.strip, pair[:2])))


def _fingerprint_of(config: Config, prepared: Prepared) -> str:
    fingerprints = '\n'.join(pairs.fingerprint for pairs in prepared.corpora)
    return hashlib.sha256(fingerprints.encode()).hexdigest()


def training() -> Training:
    return Training(
        begin=_begin,
        make_task=_make_task,
        prepare=prepare_run,
        keep=keep,
        finish=_finish,
        fingerprint=_fingerprint_of,
        batches=lambda config, prepared, trainer: TrainingData(config, prepared, trainer.devices),
        validation=held_out(TranslationValidation),
        initial_params=_initial_params,
    )

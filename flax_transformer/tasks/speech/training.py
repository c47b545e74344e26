"""How speech to text is trained."""

import hashlib
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.data.audio.corpus import Corpus
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation, held_out
from flax_transformer.ops.dropout import drawn_once
from flax_transformer.ops.product import resolve_dtype

from .config import SpeechConfig
from .corpus_checks import CORPORA, audit, read_corpora, usable
from .ctc import ctc_cost, decode, log_probability
from .evaluate import errors, jiwer, rate
from .examples import Batch, Examples, Strings, TrainingBatches
from .model import SpeechModel, features_of, init_params, training_features
from .run import LoadedRun, Run
from .transcriber import Predictor
from .units import Units


class Prepared(NamedTuple):
    units: Units
    train: Examples
    validation: Examples | None
    most_labels: int  # no example has more


def prepare_run(config: SpeechConfig, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    if config.has_validation:
        jiwer()  # raises if it is missing
    corpora = read_corpora(config, CORPORA[:2] if run.is_prepared() else CORPORA, say=say)
    if run.is_prepared():
        units = run.read_tokenizer()
    else:
        transcripts = [recording.text for recording in corpora['train'].recordings]
        if config.strings.most > 1:
            transcripts = [*transcripts, ' '.join(transcripts[:2])]  # strings have a space between words
        units = Units.learn(transcripts, config.tokenizer, config.model.vocab_size) if start is None else start.units
        audit(corpora, config, units).announce(say)
    units.check_fits(config.model.vocab_size)

    train = usable(corpora['train'], config, units)
    longest = max(len(units.encode(recording.text)) for recording in train.recordings)
    clips = max(config.strings.most, 1)
    most_labels = max(clips * longest + clips - 1, 1)  # a space separates two
    validation = None
    if 'validation' in corpora:  # always the same strings
        validation = _examples(usable(corpora['validation'], config, units), config, seed=0)
    return Prepared(units, _examples(train, config, seed=config.seed, is_training=True), validation, most_labels)


def keep(run: Run, config: SpeechConfig, prepared: Prepared) -> None:
    if not run.is_prepared():
        run.write_tokenizer(prepared.units)


def _examples(corpus: Corpus, config: SpeechConfig, *, seed: int, is_training: bool = False) -> Examples:
    if not config.strings.most:
        return corpus
    sizes = {'rate': config.features.sample_rate, 'most_samples': config.most_samples}
    return Strings(corpus, config.strings, **sizes, seed=seed, is_training=is_training)


class SpeechTask(Task):
    """The config's model and the CTC cost of transcripts.

    `slots_per_row` and `batch_shapes` are those of the longest rows, with as many labels as could fit.
    """

    slot_name = 'frame_slots'
    counts = ('labels', 'utterances')

    def __init__(self, config: SpeechConfig) -> None:
        self.rows_per_step = config.training.batch_size
        self.slots_per_row = config.most_frames
        self.row_name = f'{self.slots_per_row} feature frames'
        self.d_model = config.model.d_model
        self.dtype = config.model.dtype
        self._config = config
        self._model = SpeechModel(config.model)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, self._config.features.num_mels, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        config = self._config
        rngs = {}
        sounds = batch.samples, batch.num_samples, config.features
        if key is None:
            features, num_frames = features_of(*sounds)
        else:
            perturbing, dropout = jax.random.split(key)
            rngs = {'dropout': drawn_once(dropout)}
            features, num_frames = training_features(perturbing, *sounds, config.perturbation)

        logits, num_frames = self._model.apply(
            {'params': params}, features, num_frames, deterministic=key is None, rngs=rngs
        )

        cost, fits = ctc_cost(logits, num_frames, batch.labels, batch.num_labels)
        is_utterance = batch.num_samples > 0
        weighs = is_utterance & fits
        sums = {
            'labels': jnp.where(weighs, batch.num_labels, 0).sum(),
            'utterances': weighs.sum(),
            'too_short': (is_utterance & ~fits).sum(),  # their labels need more frames
        }
        return jnp.where(weighs, cost, 0.0).sum(), sums

    def summarize(self, sums: dict[str, float]) -> dict[str, float]:
        counts = {name: sums[name] for name in ('utterances', 'too_short')}
        return {'loss': sums['loss'] / max(sums['labels'], 1.0), **counts}

    def batch_shapes(self) -> Batch:
        config = self._config
        rows = self.rows_per_step
        samples = jax.ShapeDtypeStruct((rows, config.most_samples), jnp.float32)
        labels = jax.ShapeDtypeStruct((rows, config.encoder_frames(config.most_samples)), jnp.int32)
        lengths = jax.ShapeDtypeStruct((rows,), jnp.int32)
        return Batch(samples, lengths, labels, lengths)


SHOWN = 2  # transcripts that are reported


class SpeechValidation(Validation):
    def __init__(self, config: SpeechConfig, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        examples = prepared.validation
        count = config.strings.validation if isinstance(examples, Strings) else examples.count
        self._units = prepared.units
        self._predictor = Predictor(config, prepared.units.size)
        self._waveforms = [examples.samples(i) for i in range(count)]
        self._references = [prepared.units.normalized(examples.recording(i).text) for i in range(count)]

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        log_probs = self._predictor(params, self._waveforms)
        transcripts = [self._units.decode(decode(own).labels) for own in log_probs]
        for reference, transcript in zip(self._references[:SHOWN], transcripts, strict=False):
            reporter.say(f'  {reference!r} is heard as {transcript!r}')
        words = errors(self._references, transcripts)
        characters = errors(self._references, transcripts, unit='characters')
        labels = [self._units.encode(reference) for reference in self._references]
        costs = np.array([-log_probability(*pair) for pair in zip(log_probs, labels, strict=True)])
        fits = costs != np.inf  # not isfinite: a broken model's loss is not a number
        return {
            'loss': float(costs[fits].sum() / max(np.array([*map(len, labels)])[fits].sum(), 1)),
            'too_short': int((~fits).sum()),
            'word_error_rate': rate(words),
            'character_error_rate': rate(characters),
            'deletion_rate': float(words.deletions.sum() / max(words.length.sum(), 1)),
        }


def _make_task(config: SpeechConfig, devices: Devices) -> SpeechTask:
    return SpeechTask(replace(config, model=resolve_dtype(config.model, devices.devices[0].platform)))


def _training_batches(config: SpeechConfig, prepared: Prepared, trainer: Trainer) -> TrainingBatches:
    batches = TrainingBatches(config, prepared, trainer.own_rows)
    lengths = ', '.join(f'{length / config.features.sample_rate:.1f}' for length in batches.lengths)
    say(
        f'batches of {config.training.batch_size} utterances of up to {lengths} s; padding is '
        f'{batches.padding():.0%} of the samples'
    )
    return batches


def _fingerprint(config: SpeechConfig, prepared: Prepared) -> str:
    examples = prepared.train
    digest = hashlib.sha256(f'{config.data.train} {examples.count}\n'.encode())
    for i in range(min(examples.count, 1 << 20)):
        recording = examples.recording(i)
        digest.update(f'{recording.num_samples} {prepared.units.encode(recording.text)}\n'.encode())
    return digest.hexdigest()


def training() -> Training:
    return Training(
        make_task=_make_task,
        prepare=prepare_run,
        keep=keep,
        fingerprint=_fingerprint,
        batches=_training_batches,
        validation=held_out(SpeechValidation),
    )

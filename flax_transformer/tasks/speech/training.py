"""How speech to text is trained."""

import hashlib
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params, Sums, Task
from flax_transformer.engine.task_value import Training
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation, held_out
from flax_transformer.ops.dropout import drawn_once
from flax_transformer.ops.product import resolve_dtype

from .batches import Batch, TrainingBatches
from .config import SpeechConfig
from .corpus_checks import CORPORA, audit, read_corpora, usable
from .ctc import ctc_cost, decode, log_probability
from .front_end import features_of, training_features
from .metrics import errors, jiwer, rate
from .model import SpeechModel, init_params
from .recordings import Corpus, Examples, Strings
from .run import LoadedRun, Run
from .transcriber import Predictor
from .units import Units


class Prepared(NamedTuple):
    units: Units
    train: Examples
    validation: Examples | None
    most_labels: int  # no example has more


def prepare_run(config: SpeechConfig, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    """Reads the data of a run, and checks that of a new one."""
    if config.has_validation:
        jiwer()  # raises if it is missing
    corpora = read_corpora(config, CORPORA[:2] if run.is_prepared() else CORPORA, say=say)
    if run.is_prepared():
        units = run.read_tokenizer()
    else:
        transcripts = [each.text for each in corpora['train'].recordings]
        if config.strings.most > 1:
            transcripts = [*transcripts, ' '.join(transcripts[:2])]  # strings have a space between words
        units = Units.learn(transcripts, config.tokenizer, config.model.vocab_size) if start is None else start.units
        audit(corpora, config, units).announce(say)
    units.check_fits(config.model.vocab_size)
    kept = {name: usable(corpora[name], config, units) for name in CORPORA[:2] if name in corpora}
    seeds = {'train': config.seed, 'validation': 0}  # always the same validation strings
    examples = {name: examples_of(kept[name], config, name, seed=seeds[name]) for name in kept}
    longest = max(len(units.encode(each.text)) for each in kept['train'].recordings)
    clips = max(config.strings.most, 1)
    most_labels = max(clips * longest + clips - 1, 1)  # a space separates two
    return Prepared(units, examples['train'], examples.get('validation'), most_labels)


def keep(run: Run, config: SpeechConfig, prepared: Prepared) -> None:
    if not run.is_prepared():
        run.write_tokenizer(prepared.units)


def examples_of(corpus: Corpus, config: SpeechConfig, name: str, *, seed: int) -> Examples:
    """The recordings of a corpus, by themselves or in strings."""
    if not config.strings.most:
        return corpus
    sizes = {'rate': config.features.sample_rate, 'most_samples': config.most_samples}
    return Strings(corpus, config.strings, **sizes, seed=seed, is_training=name == 'train')


class SpeechTask(Task):
    """The config's model and the CTC cost of transcripts.

    Batches have a few lengths; `slots_per_row` and `batch_shapes` are those of the longest, with as many labels as
    could fit.
    """

    slot_name = 'frame_slots'
    counts = ('labels', 'utterances')

    def __init__(self, config: SpeechConfig) -> None:
        self.rows_per_step, self.slots_per_row = config.training.batch_size, config.most_frames
        self.row_name = f'{self.slots_per_row} feature frames'
        self.d_model, self.dtype = config.model.d_model, config.model.dtype
        self._config, self._model = config, SpeechModel(config.model)

    def init(self, key: jax.Array) -> Params:
        return init_params(self._config.model, self._config.features.num_mels, key)

    def loss(self, params: Params, batch: Batch, key: jax.Array | None) -> tuple[jax.Array, Sums]:
        config, rngs = self._config, {}
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
        config, rows = self._config, self.rows_per_step
        samples = jax.ShapeDtypeStruct((rows, config.most_samples), jnp.float32)
        labels = jax.ShapeDtypeStruct((rows, -(-config.most_frames // config.model.stride)), jnp.int32)
        lengths = jax.ShapeDtypeStruct((rows,), jnp.int32)
        return Batch(samples, lengths, labels, lengths)


SHOWN = 2  # transcripts that are reported


class SpeechValidation(Validation):
    def __init__(self, config: SpeechConfig, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        units, examples = prepared.units, prepared.validation
        count = config.strings.validation if isinstance(examples, Strings) else examples.count
        self._units = units
        self._predictor = Predictor(config, units.size)
        self._waveforms = [examples.samples(i) for i in range(count)]
        self._references = [units.normalized(examples.recording(i).text) for i in range(count)]

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        """Loss, in nats a label, and word and character error rate; shows some transcripts."""
        log_probs = self._predictor(params, self._waveforms)
        transcripts = [self._units.decode(decode(each).labels) for each in log_probs]
        for reference, transcript in zip(self._references[:SHOWN], transcripts, strict=False):
            reporter.say(f'  {reference!r} is heard as {transcript!r}')
        words = errors(self._references, transcripts)
        characters = errors(self._references, transcripts, unit='characters')
        labels = [self._units.encode(reference) for reference in self._references]
        costs = np.array([-log_probability(*each) for each in zip(log_probs, labels, strict=True)])
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


def training_batches(config: SpeechConfig, prepared: Prepared, trainer: Trainer) -> TrainingBatches:
    """The batches of a run; reports their lengths."""
    batches = TrainingBatches(config, prepared, trainer.own_rows)
    lengths = ', '.join(f'{length / config.features.sample_rate:.1f}' for length in batches.lengths)
    say(
        f'batches of {config.training.batch_size} utterances of up to {lengths} s; padding is '
        f'{batches.padding():.0%} of the samples'
    )
    return batches


def fingerprint_of(config: SpeechConfig, prepared: Prepared) -> str:
    """A hash of the recordings' lengths and transcripts."""
    examples = prepared.train
    found = hashlib.sha256(f'{config.data.train} {examples.count}\n'.encode())
    for i in range(min(examples.count, 1 << 20)):
        recording = examples.recording(i)
        found.update(f'{recording.num_samples} {prepared.units.encode(recording.text)}\n'.encode())
    return found.hexdigest()


def training() -> Training:
    return Training(
        make_task=_make_task,
        prepare=prepare_run,
        keep=keep,
        fingerprint=fingerprint_of,
        batches=training_batches,
        validation=held_out(SpeechValidation),
    )

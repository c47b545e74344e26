"""How speech to text is trained."""

from dataclasses import replace

from flax_transformer.engine.devices import multihost
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.recipe import Recipe
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.speech.batches import TrainingBatches
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.examples import Strings
from flax_transformer.tasks.speech.loading import load_run
from flax_transformer.tasks.speech.model import resolve_dtype
from flax_transformer.tasks.speech.preparation import Prepared, keep, prepare_run
from flax_transformer.tasks.speech.run import Run
from flax_transformer.tasks.speech.task import SpeechTask
from flax_transformer.tasks.speech.validation import Validation


def _make_task(config: Config, devices: Devices) -> SpeechTask:
    return SpeechTask(replace(config, model=resolve_dtype(config.model, devices.devices[0].platform)))


def training_batches(config: Config, prepared: Prepared, trainer: Trainer) -> TrainingBatches:
    """The batches of a run; with several processes, this one's rows of them. Reports their lengths."""
    batches = TrainingBatches(
        prepared.train,
        prepared.units.encode,
        batch_size=config.training.batch_size,
        speed=config.perturbation.speed,
        most_samples=config.most_samples,
        num_lengths=config.data.num_lengths,
        multiple=config.features.hop * config.model.stride,
        most_labels=prepared.most_labels,
        seed=config.seed,
        name=config.data.train,
        own_rows=trainer.devices.own_rows(config.training.batch_size),
    )
    lengths = ', '.join(f'{length / config.features.sample_rate:.1f}' for length in batches.lengths)
    multihost.say(
        f'batches of {config.training.batch_size} utterances of up to {lengths} s; padding is '
        f'{batches.padding():.0%} of the samples'
    )
    return batches


def _validation(config: Config, prepared: Prepared, trainer: Trainer) -> Validation | None:
    if prepared.validation is None:
        return None
    is_endless = isinstance(prepared.validation, Strings)
    count = config.strings.validation if is_endless else prepared.validation.count
    return Validation(config, trainer, prepared.validation, list(range(count)), prepared.units)


RECIPE = Recipe(
    config=Config,
    run=Run,
    make_task=_make_task,
    prepare=prepare_run,
    keep=keep,
    batches=training_batches,
    validation=_validation,
    load=load_run,
    taken_over=('model', 'features', 'tokenizer'),
    comes_along='units',
)

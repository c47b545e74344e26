"""How a classifier is trained."""

from dataclasses import replace

from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.recipe import Recipe
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.classification.batches import TrainingBatches
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.loading import load_run
from flax_transformer.tasks.classification.model import resolve_dtype
from flax_transformer.tasks.classification.preparation import Prepared, initial_params, keep, prepare_run
from flax_transformer.tasks.classification.run import Run
from flax_transformer.tasks.classification.task import ClassificationTask
from flax_transformer.tasks.classification.validation import Validation


def _make_task(config: Config, devices: Devices) -> ClassificationTask:
    return ClassificationTask(replace(config, model=resolve_dtype(config.model, devices.devices[0].platform)))


def _batches(config: Config, prepared: Prepared, trainer: Trainer) -> TrainingBatches:
    rows = config.training.batch_size
    return TrainingBatches(
        prepared.train,
        batch_size=rows,
        seed=config.seed,
        name=config.data.train,
        own_rows=trainer.devices.own_rows(rows),
    )


def _validation(config: Config, prepared: Prepared, trainer: Trainer) -> Validation | None:
    return None if prepared.validation is None else Validation(config, trainer, prepared.validation)


RECIPE = Recipe(
    config=Config,
    run=Run,
    make_task=_make_task,
    prepare=prepare_run,
    keep=keep,
    batches=_batches,
    validation=_validation,
    initial_params=initial_params,
    load=load_run,
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
)

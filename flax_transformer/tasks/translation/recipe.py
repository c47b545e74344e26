"""How a translation model is trained."""

from typing import Any

import jax

from flax_transformer.data.vector_files import with_pretrained
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.recipe import Recipe
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.model import family_of, source_table
from flax_transformer.tasks.translation.preparation import Prepared, keep, prepare_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.tasks.translation.task import TranslationTask, with_dtype
from flax_transformer.tasks.translation.training_data import TrainingData
from flax_transformer.tasks.translation.validation import TranslationValidation


def _make_task(config: Config, devices: Devices) -> TranslationTask:
    platform = devices.devices[0].platform
    return TranslationTask(with_dtype(config, platform), row_parts=devices.row_parts_per_step, platform=platform)


def _batches(config: Config, prepared: Prepared, trainer: Trainer) -> TrainingData:
    return TrainingData(config, prepared, trainer.devices)


def _validation(config: Config, prepared: Prepared, trainer: Trainer) -> TranslationValidation | None:
    if not prepared.validation:
        return None
    return TranslationValidation(config, trainer, prepared.tokenizer, prepared.validation)


def _initial_params(config: Config, prepared: Prepared) -> Any:
    """The parameters that a new run starts from; None: fresh ones."""
    if prepared.pretrained is None:
        return None
    params = family_of(config.model).init_params(config.model, jax.random.key(config.seed))
    embedding = params[source_table(config.model)]
    embedding['table'] = with_pretrained(embedding['table'], prepared.pretrained)
    return params


RECIPE = Recipe(
    config=Config,
    run=Run,
    make_task=_make_task,
    prepare=prepare_run,
    keep=keep,
    batches=_batches,
    validation=_validation,
    initial_params=_initial_params,
    load=load_run,
    taken_over=('model', 'tokenizer'),
    comes_along='tokenizer',
)

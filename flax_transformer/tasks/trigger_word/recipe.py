"""How a trigger word is trained."""

from flax_transformer.engine.recipe import Recipe
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.trigger_word.batches import TrainingBatches
from flax_transformer.tasks.trigger_word.config import Config
from flax_transformer.tasks.trigger_word.loading import load_run
from flax_transformer.tasks.trigger_word.preparation import Prepared, initial_params, prepare_run
from flax_transformer.tasks.trigger_word.run import Run
from flax_transformer.tasks.trigger_word.task import TriggerWordTask
from flax_transformer.tasks.trigger_word.validation import Validation


def _batches(config: Config, prepared: Prepared, trainer: Trainer) -> TrainingBatches:
    rows = config.training.batch_size
    name = ', '.join(config.data.train + config.data.train_background)
    return TrainingBatches(prepared.train, batch_size=rows, name=name, own_rows=trainer.devices.own_rows(rows))


def _validation(config: Config, prepared: Prepared, trainer: Trainer) -> Validation | None:
    return None if prepared.validation is None else Validation(config, trainer, prepared.validation)


RECIPE = Recipe(
    config=Config,
    run=Run,
    make_task=lambda config, devices: TriggerWordTask(config),
    prepare=prepare_run,
    batches=_batches,
    validation=_validation,
    initial_params=initial_params,
    load=load_run,
    taken_over=('model', 'features'),
    comes_along='features',
)

"""How word vectors are trained."""

from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.recipe import Recipe
from flax_transformer.engine.task import Task
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.embeddings.batches import TrainingBatches
from flax_transformer.tasks.embeddings.config import Config
from flax_transformer.tasks.embeddings.preparation import Prepared, keep, prepare_run
from flax_transformer.tasks.embeddings.run import Run, load_run
from flax_transformer.tasks.embeddings.task import GloVeTask, Word2VecTask
from flax_transformer.tasks.embeddings.validation import Validation


def _make_task(config: Config, devices: Devices) -> Task:
    return GloVeTask(config) if config.model.method == 'glove' else Word2VecTask(config)


def _batches(config: Config, prepared: Prepared, trainer: Trainer) -> TrainingBatches:
    rows = config.training.blocks_per_step
    return TrainingBatches(
        prepared.train,
        rows=rows,
        seed=config.seed,
        name=config.data.train,
        fingerprint=prepared.fingerprint,
        own_rows=trainer.devices.own_rows(rows),
    )


def _validation(config: Config, prepared: Prepared, trainer: Trainer) -> Validation | None:
    return None if prepared.validation is None else Validation(trainer, prepared.validation)


RECIPE = Recipe(
    config=Config,
    run=Run,
    make_task=_make_task,
    prepare=prepare_run,
    keep=keep,
    batches=_batches,
    validation=_validation,
    load=load_run,
    taken_over=('model', 'tokenizer'),
    comes_along='vocabulary',
)

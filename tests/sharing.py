"""Compiles what is equal once in a process: without this, tests trace and compile most programs several times."""

import copy
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flax_transformer.common.fields import marked
from flax_transformer.config import DecodingConfig, ParallelConfig
from flax_transformer.engine.config import TaskConfig
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.task_value import Recipe
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.translation.inference import batch_runner
from flax_transformer.tasks.translation.inference.programs import Programs
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.run import Run

# Fields of a search that its program does not read.
OUTSIDE = {name: getattr(DecodingConfig, name) for name in ('batch_tokens', 'buckets', 'max_source_tokens', 'n_best')}


def share_trainers() -> None:
    """Trainers share programs and first states if their configs differ only in when to report, save and end."""
    make, init, made, begun = Recipe.trainer, Trainer.init_state, {}, {}

    def trainer(recipe: Recipe, config: TaskConfig, devices: Any = None) -> Trainer:
        chosen = Devices(config.parallel, devices)
        task, parts = recipe.training().make_task(config, chosen), asdict(config)
        for name in marked(config.training, 'resumable'):
            parts['training'].pop(name)
        parts |= {'data': parts.get('data', {}) | {'root': ''}, 'decoding': None, 'check': None}
        kind = type(task)  # whose parts a test may have replaced
        key = (
            *(kind, kind.loss, kind.counts, kind.slots_per_row, kind.update),
            *(repr(parts), config.optimizer, config.training.is_fitted, tuple(chosen.devices)),
            *(jax.config.jax_enable_x64, jax.config.jax_numpy_dtype_promotion),
        )
        if key not in made:
            made[key] = make(recipe, config, devices)
        shared = copy.copy(made[key])
        shared.task, shared.config, shared.key = task, config.engine, key
        shared.set_steps(config.training.steps)
        return shared

    def init_state(self: Trainer, params: Any = None) -> Any:
        if params is not None or not hasattr(self, 'key'):
            return init(self, params)
        if self.key not in begun:
            begun[self.key] = jax.device_get(init(self))
        # Copies, since a step overwrites the state that it is given.
        return self.devices.put(jax.tree.map(np.array, begun[self.key]), self.shardings)

    Recipe.trainer, Trainer.init_state = trainer, init_state


def share_first_parameters() -> None:
    """What fresh parameters would be like, which whoever loads a run asks, is traced once for each model."""
    init, traced = Run.init_params, {}

    def init_params(config: TaskConfig, key: Any) -> Any:
        model = repr(config.model)
        if model not in traced:
            traced[model] = jax.jit(partial(init, config))
        return traced[model](key)

    Run.init_params = staticmethod(init_params)


def share_searches() -> None:
    """Translators of equal models and searches share their programs, which take parameters as arguments."""
    jitted, found = Programs._jitted, {}

    def shared(self: Programs, function: Any, **settings: Any) -> Any:
        decoding = settings.get('decoding')
        parts = settings | {'decoding': decoding and replace(decoding, **OUTSIDE)}
        key = function, self.models, self.special_ids, repr(parts)
        if key not in found:
            found[key] = jitted(self, function, **settings)
        return found[key]

    Programs._jitted = shared
    make, made = batch_runner.Kept, {}

    def shared_kept(function: Any, settings: str) -> Any:
        if settings not in made or not settings:
            made[settings] = make(function, settings)
        return made[settings]

    batch_runner.Kept = shared_kept


def share_translators(folders: set[Path]) -> None:
    """The runs in these folders are loaded once for each search."""
    load, loaded = Translator.from_run, {}

    def from_run(*runs: Path | str, step: int | None = None, parallel: Any = None, **decoding: Any) -> Translator:
        names = tuple(map(str, runs))
        if Path(names[0]).parent not in folders or not decoding.keys() <= vars(DecodingConfig()).keys():
            return load(*runs, step=step, parallel=parallel, **decoding)
        search = replace(Run(Path(names[0].partition('@')[0])).read_config().decoding, **decoding)
        key = (names, step, parallel or ParallelConfig(), search)
        if key not in loaded:
            loaded[key] = load(*runs, step=step, parallel=parallel, **decoding)
        return loaded[key]

    Translator.from_run = from_run

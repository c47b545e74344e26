"""What a translator runs: its models, their programs, and the weights that those take, made of parameters."""

import contextlib
import ctypes
import operator
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import jax

from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.tasks.translation.inference.batch_runner import Runner
from flax_transformer.tasks.translation.inference.programs import Programs
from flax_transformer.tasks.translation.loading import load_ensemble
from flax_transformer.tasks.translation.model import TranslationModel


class Parameters:
    """A base of `Translator`, which has its programs and parameters."""

    programs: Programs
    _params: Any  # float32; None: freed
    _read: Callable[[], Any] | None = None  # reads them again

    @property
    def models(self) -> tuple[TranslationModel, ...]:
        """The model, or the members of the ensemble."""
        return self.programs.models

    @property
    def model(self) -> TranslationModel:
        """The model; of an ensemble the first."""
        return self.models[0]

    @property
    def translate_ids(self) -> Callable[..., Hypotheses]:
        """`translate_ids(weights, source, prefix=None, required=None)`, jitted, with these models and this search.

        `weights` are this translator's, or any parameters of such models. Pure: usable within other JAX programs (jit,
        vmap, export). See `ids.translate_ids`.
        """
        return self.programs.translate_ids

    @property
    def runner(self) -> Runner:
        """Puts batches onto the devices; its num_compilations counts the programs."""
        return self.programs.runner

    @property
    def params(self) -> Any:
        """The parameters, float32; read again from where they came if the programs take others, such as int8."""
        return self._read() if self._params is None else self._params

    @cached_property
    def weights(self) -> Any:
        """The parameters as the programs take them (`Programs.weights_of`)."""
        return self.programs.weights_of(self.params)

    def _loaded(self, read: Callable[[], Any]) -> Self:
        """This translator, the only holder of its parameters; they are freed if its programs take others. Asking for
        `params`, as a search with other weights does, reads them again."""
        self._read = read
        if any(map(operator.is_not, jax.tree.leaves(self.weights), jax.tree.leaves(self._params))):
            jax.block_until_ready(self.weights)
            self._params = None
            with contextlib.suppress(OSError, AttributeError):  # glibc keeps what is freed in small pieces
                ctypes.CDLL(None).malloc_trim(0)
        return self


def read_runs(references: Sequence[Path | str], step: int | None) -> Any:
    """The parameters of a run, or of each run of an ensemble."""
    runs = load_ensemble(references, step=step)
    return tuple(run.params for run in runs) if len(runs) > 1 else runs[0].params


def read_folder(folder: Path | str, *, only_params: bool = False) -> Any:
    """What a folder in Hugging Face's format holds (`huggingface.folder.Pretrained`)."""
    from flax_transformer.huggingface import folder as folders  # its readers are needed here only

    pretrained = folders.read_folder(folder)
    return pretrained.params if only_params else pretrained

"""Lines of text in, labels out: one for each line, in order, independent of the other lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, overload

import jax
import numpy as np

from flax_transformer.common.chunks import Streams
from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.fields import check_numbers
from flax_transformer.engine.devices.devices import jit_alone
from flax_transformer.engine.runs.averaging import load_run
from flax_transformer.text.tokenizer import as_text

from .config import ClassifierConfig
from .model import ClassifierModel, probabilities
from .run import Labels, Run
from .vocabulary import UNK_ID, Vocabulary, padded


@dataclass(frozen=True)
class Classification:
    label: str  # the most probable
    probability: float  # the label's
    probabilities: dict[str, float]  # each label's; they sum to 1
    # `empty`: the text has no token, so the probabilities are the training data's; `truncated`: its end was not read;
    # `unknown`: none of its words was in the training data; `replaced`: U+FFFD stands for what is not valid UTF-8.
    flags: tuple[str, ...] = ()


ROWS = 32  # texts at a time, however many there are
LEAST_SLOTS = 16


def slots_for(length: int) -> int:
    """The slots of a text's batch: a power of two.

    >>> [slots_for(n) for n in (1, 16, 17, 100)]
    [16, 16, 32, 128]
    """
    return max(LEAST_SLOTS, 1 << (length - 1).bit_length())


class Predictor:
    """Computes the probabilities of labels. Compiles once for each power of two of tokens.

    A text shares its batch with texts of about its own length only, so that its rounding does not depend on others.
    """

    def __init__(self, config: ClassifierConfig) -> None:
        self.num_classes = config.num_classes
        self._config = config
        self._compute = jit_alone(partial(probabilities, model=ClassifierModel(config)))

    def __reduce__(self) -> tuple[Any, ...]:  # another process compiles for itself
        return type(self), (self._config,)

    def __call__(
        self, params: Any, ids: Sequence[Sequence[int]], progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """[N, C] float32 for N texts; without ids, what the model makes of padding."""
        out = np.empty((len(ids), self.num_classes), np.float32)
        slots = np.array([slots_for(max(len(text), 1)) for text in ids], int)
        for size in np.unique(slots).tolist():
            alike = np.flatnonzero(slots == size)
            for first in range(0, len(alike), ROWS):
                chosen = alike[first : first + ROWS]
                tokens = padded([ids[i] for i in chosen] + [[]] * (ROWS - len(chosen)), size)
                out[chosen] = np.asarray(self._compute(params, tokens))[: len(chosen)]
                if progress:
                    progress(len(chosen))
        return out


class Classifier(Streams):
    """`classifier(lines)` labels lines of text, `classifier(line)` one."""

    def __init__(
        self, config: ClassifierConfig, params: Any, vocabulary: Vocabulary, labels: Labels, *, max_length: int
    ) -> None:
        self.config = config
        self.params = params
        self.vocabulary = vocabulary
        self.max_length = max_length  # tokens
        self.labels = labels.names
        self._prior = (np.array(labels.counts) / sum(labels.counts)).astype(np.float32)
        self._predictor = Predictor(config)

    @classmethod
    def from_run(cls, path: Path | str, *, step: int | None = None) -> Self:
        """The classifier of a run's best checkpoint, or of another: by `step`, or as `RUN@last` or `RUN@average`.

        Its probabilities are calibrated by the temperature that the validation set gave the checkpoint.
        """
        use_compilation_cache()
        run = load_run(Run, path, step=step)
        # Logits are linear in the last layer, so dividing that calibrates whatever is computed from the parameters.
        params = run.params | {'output': jax.tree.map(lambda x: np.asarray(x) / run.temperature, run.params['output'])}
        return cls(run.config.model, params, run.vocabulary, run.labels, max_length=run.config.data.max_length)

    @overload
    def __call__(self, lines: str | bytes, **options: Any) -> Classification: ...

    @overload
    def __call__(self, lines: Sequence[str | bytes], **options: Any) -> list[Classification]: ...

    def __call__(
        self, lines: str | bytes | Sequence[str | bytes], *, progress: Callable[[int], None] | None = None
    ) -> Classification | list[Classification]:
        """One classification for each line, in order, or that of a single line.

        Bytes are read as UTF-8. `progress` is called with the number of texts of each finished batch.
        """
        if isinstance(lines, (str, bytes)):
            return self([lines], progress=progress)[0]
        texts = list(map(as_text, lines))
        ids = self.vocabulary.encode([text for text, _ in texts])
        probabilities = self.probabilities_of_ids(ids, progress=progress)
        flags = [self._flags(own, is_replaced) for own, (_, is_replaced) in zip(ids, texts, strict=True)]
        return list(map(self._classification, probabilities, flags))

    def probabilities(
        self, lines: Sequence[str | bytes], *, progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """[N, C] float32, in the order of `labels`."""
        return self.probabilities_of_ids(self.ids(lines), progress=progress)

    def ids(self, lines: Sequence[str | bytes]) -> list[list[int]]:
        return [text[: self.max_length] for text in self.vocabulary.encode([as_text(line)[0] for line in lines])]

    def probabilities_of_ids(
        self, ids: Sequence[Sequence[int]], *, progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """`probabilities` of N texts as ids. Raises UserError if the model computes no numbers."""
        probabilities = self._predictor(self.params, [text[: self.max_length] for text in ids], progress)
        probabilities[[not text for text in ids]] = self._prior
        check_numbers(probabilities)
        return probabilities

    def _flags(self, ids: Sequence[int], is_replaced: bool) -> tuple[str, ...]:
        known = {
            'empty': not ids,
            'truncated': len(ids) > self.max_length,
            'unknown': bool(ids) and all(token == UNK_ID for token in ids[: self.max_length]),
            'replaced': is_replaced,
        }
        return tuple(name for name, is_set in known.items() if is_set)

    def _classification(self, probabilities: np.ndarray, flags: tuple[str, ...]) -> Classification:
        best = int(probabilities.argmax())
        values = dict(zip(self.labels, map(float, probabilities), strict=True))
        return Classification(self.labels[best], float(probabilities[best]), values, flags)

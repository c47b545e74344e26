"""Validation during training: the loss and the error rates on the validation set."""

import numpy as np

from flax_transformer.engine import recipe as validation
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.ctc import log_probability
from flax_transformer.tasks.speech.decoding import decode
from flax_transformer.tasks.speech.examples import Examples
from flax_transformer.tasks.speech.metrics import errors, rate
from flax_transformer.tasks.speech.prediction import Predictor
from flax_transformer.tasks.speech.units import Units

SHOWN = 2  # transcripts that are reported


class Validation(validation.Validation):
    def __init__(self, config: Config, trainer: Trainer, examples: Examples, numbers: list[int], units: Units) -> None:
        """`numbers`: the examples to score."""
        super().__init__(trainer)
        self._units = units
        self._predictor = Predictor(config, units.size)
        self._waveforms = [examples.samples(i) for i in numbers]
        self._references = [units.normalized(examples.text(i)) for i in numbers]

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, float]:
        """Loss, in nats a label, and word and character error rate; shows some transcripts."""
        log_probs = self._predictor(params, self._waveforms)
        transcripts = [self._units.decode(decode(each).labels) for each in log_probs]
        for reference, transcript in list(zip(self._references, transcripts, strict=True))[:SHOWN]:
            reporter.say(f'  {reference!r} is heard as {transcript!r}')
        words, characters = (
            errors(self._references, transcripts),
            errors(self._references, transcripts, of='characters'),
        )
        labels = [self._units.encode(reference) for reference in self._references]
        costs = np.array([-log_probability(*each) for each in zip(log_probs, labels, strict=True)])
        return {
            'loss': float(costs[np.isfinite(costs)].sum() / max(sum(map(len, labels)), 1)),
            'word_error_rate': rate(words),
            'character_error_rate': rate(characters),
        }

"""What is measured while training goes on: the loss on the validation sets, BLEU, and a few translations to look at."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flax_transformer.data.bitext.batches import loss_batches
from flax_transformer.data.bitext.tokenized import TokenizedPairs, flatten
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.devices import multihost as processes
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.state import TrainState
from flax_transformer.engine.step import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.metrics import make_metrics
from flax_transformer.tasks.translation.preparation import ValidationSet, interleaved
from flax_transformer.text.tokenizer import Tokenizer


class Validation:
    """`validation(state)` measures the parameters that would be kept: the moving average, where there is one.

    Translations are those of the run's Translator and DecodingConfig, as `flax-transformer translate` would make them.
    """

    def __init__(
        self, trainer: Trainer, tokenizer: Tokenizer, sets: Sequence[ValidationSet], reporter: Reporter
    ) -> None:
        self._trainer, self._config, self._sets, self._reporter = trainer, trainer.config, sets, reporter
        training = self._config.training
        count = sum(len(each.pairs) for each in sets) if training.evaluate_bleu is None else training.evaluate_bleu
        self._scored = interleaved(sets, count)
        self._said_no_pictures = False
        self._samples = interleaved(sets, training.sample_translations)
        if sets:
            decoding = replace(self._config.decoding, target_language=sets[0].target_language)
            # Every device searches its own lines with all parameters, however training cuts them.
            everywhere = ParallelConfig(self._config.parallel.strategy, self._config.parallel.num_devices)
            settings = {'parallel': everywhere, 'source_language': self._config.data.source_language}
            self._translator = Translator(self._config.model, None, tokenizer, decoding, **settings)

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Loss, perplexity and, where sentences are translated for it, BLEU with its signature; {} without a set."""
        if not self._sets:
            return {}
        devices = self._trainer.devices
        batches = loss_batches(
            of_each_corpus(self._config, self._sets),
            self._config.model,
            self._config.data,
            num_rows=self._config.rows_per_step,
            multiple_of=len(devices),
        )
        scores: dict[str, Any] = self._trainer.evaluate(state.params_to_keep, batches)
        if self._scored or self._samples:
            params = devices.gather(state.params_to_keep)
            # The others of several processes wait: what is decided by a score must be the same for all.
            step = int(state.step)
            found = json.dumps(self._translated(step, params)) if processes.is_first() else None
            scores |= json.loads(processes.share(f'scores after step {step}', found))
        return scores

    def _translated(self, step: int, params: Any) -> dict[str, Any]:
        """BLEU, after a few translations were shown."""
        translations = self._translate(params)
        for number, (each, i) in enumerate(self._samples, start=1):
            line, reference = each.pairs.sources[i], each.pairs.targets[i]
            translation = translations[each.name, i]
            self._reporter.sample(step, number, line, reference, translation)
            if number == 1 and self._config.training.draw_attention:
                self._draw(params, step, each, line, translation)
        return self._bleu(translations)

    def _draw(self, params: Any, step: int, each: ValidationSet, line: str, translation: str) -> None:
        """The attention over a sample sentence, for TensorBoard; where matplotlib is absent that is said once."""
        from flax_transformer.tasks.translation.attention_map import attention_png

        translator = self._translator.with_params(params, target_language=each.target_language)
        try:
            self._reporter.picture(step, 'attention', attention_png(translator, line, translation))
        except ImportError:
            if not self._said_no_pictures:
                self._reporter.say('no pictures of attention: matplotlib is absent (extra `notebooks`)')
            self._said_no_pictures = True

    def _translate(self, params: Any) -> dict[tuple[str, int], str]:
        """The translations that are asked for, each once, by set and sentence."""
        found = {}
        for each in self._sets:
            chosen = sorted({i for one, i in (*self._scored, *self._samples) if one is each})
            if chosen:
                translate = self._translator.with_params(params, target_language=each.target_language)
                done = translate([each.pairs.sources[i] for i in chosen])
                found |= {(each.name, i): one.text for i, one in zip(chosen, done, strict=True)}
        return found

    def _bleu(self, translations: dict[tuple[str, int], str]) -> dict[str, Any]:
        """BLEU; of several sets each one's, and their mean: the n-grams of several languages are no corpus."""
        metric, scores = make_metrics()['bleu'], {}
        for each in self._sets:
            chosen = [i for one, i in self._scored if one is each]
            if chosen:
                lines = [translations[each.name, i] for i in chosen]
                scores[each.name] = metric.corpus_score(lines, [[each.pairs.targets[i] for i in chosen]]).score
        if not scores:
            return {}
        each_one = {f'bleu/{name}': score for name, score in scores.items()} if len(scores) > 1 else {}
        return {
            'bleu': sum(scores.values()) / len(scores),
            **each_one,
            'bleu_sentences': len(self._scored),
            'bleu_signature': str(metric.get_signature()),
        }


def of_each_corpus(config: Config, sets: Sequence[ValidationSet]) -> list[TokenizedPairs]:
    """The validation set of each corpus, empty where it has none: a corpus is known by its number in the mixture."""
    known = {each.name: each.tokenized for each in sets}
    return [known.get(corpus.name, TokenizedPairs(flatten([]), flatten([]))) for corpus in config.data.corpora]

"""What is measured while training goes on: the loss on the validation sets, BLEU, and a few translations to look at."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flax_transformer import processes
from flax_transformer.config import Config
from flax_transformer.data import TokenizedPairs, loss_batches
from flax_transformer.data.tokenized import flatten
from flax_transformer.metrics import make_metrics
from flax_transformer.preparation import ValidationSet, interleaved
from flax_transformer.reporting import Reporter
from flax_transformer.tokenizer import Tokenizer
from flax_transformer.train_state import TrainState
from flax_transformer.training import Trainer
from flax_transformer.translator import Translator


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
        self._samples = interleaved(sets, training.sample_translations)
        if sets:
            decoding = replace(self._config.decoding, target_language=sets[0].target_language)
            settings = {'parallel': self._config.parallel, 'source_language': self._config.data.source_language}
            self._translator = Translator(self._config.model, None, tokenizer, decoding, **settings)

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Loss, perplexity and, where sentences are translated for it, BLEU with its signature; {} without a set."""
        if not self._sets:
            return {}
        devices = self._trainer.devices
        batches = loss_batches(of_each_corpus(self._config, self._sets), self._config, multiple_of=len(devices))
        scores: dict[str, Any] = self._trainer.evaluate(state.params_to_keep, batches)
        if self._scored or self._samples:
            params = devices.gather(state.params_to_keep)
            # The others of several processes wait: what is decided by a score must be the same for all.
            found = json.dumps(self._translated(params)) if processes.is_first() else None
            scores |= json.loads(processes.share(f'scores after step {int(state.step)}', found))
        return scores

    def _translated(self, params: Any) -> dict[str, Any]:
        """BLEU, after a few translations were shown."""
        translations = self._translate(params)
        for each, i in self._samples:
            self._reporter.say(f'  source       {each.pairs.sources[i]}')
            self._reporter.say(f'  reference    {each.pairs.targets[i]}')
            self._reporter.say(f'  translation  {translations[each.name, i]}')
        return self._bleu(translations)

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

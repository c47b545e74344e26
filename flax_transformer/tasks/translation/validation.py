"""Validation during training: the loss on the validation sets, BLEU, and a few sample translations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flax_transformer.common.installing import install_command
from flax_transformer.data.bitext.batches import Batch, loss_batches
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.recipe import Validation
from flax_transformer.engine.task import Params
from flax_transformer.engine.trainer import Trainer
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.inference.programs import Programs
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.metrics import make_metrics, note_on
from flax_transformer.tasks.translation.preparation import Prepared, ValidationSet, interleaved, of_each_corpus

Translated = dict[tuple[str, int], str]  # translations by name of the set and index of the sentence


class TranslationValidation(Validation):
    """Scores the validation sets, and translates as `flax-transformer translate` would, for BLEU and for samples."""

    def __init__(self, config: Config, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._config, self._tokenizer, self._sets = config, prepared.tokenizer, prepared.validation
        sets = self._sets
        training = config.training
        count = sum(len(each.pairs) for each in sets) if training.evaluate_bleu is None else training.evaluate_bleu
        self._scored = interleaved(sets, count)
        self._samples = interleaved(sets, training.sample_translations)
        self.predicts = bool(self._scored or self._samples)
        self._programs: Programs | None = None
        self._can_draw, self._is_explained = training.draw_attention, False

    def batches(self) -> Sequence[Batch]:
        config = self._config
        return loss_batches(
            of_each_corpus(config.data, self._sets),
            config.model,
            config.data,
            num_rows=config.rows_per_step,
            multiple_of=len(self.trainer.devices),
        )

    def predict(self, params: Params, step: int, reporter: Reporter) -> dict[str, Any]:
        try:
            return self._translate_and_score(step, params, reporter)
        finally:
            if self._programs:
                self._programs.runner.release()  # training needs the memory

    def _translate_and_score(self, step: int, params: Params, reporter: Reporter) -> dict[str, Any]:
        translations = self._translate(params)
        for number, (each, i) in enumerate(self._samples, start=1):
            line, translation = each.pairs.sources[i], translations[each.name, i]
            reporter.sample(step, number, source=line, reference=each.pairs.targets[i], translation=translation)
            if number == 1 and self._can_draw:
                self._draw(params, step, each, line, translation, reporter)
        scores = self._score(translations)
        if scores and not self._is_explained:
            self._is_explained = True
            notes = dict.fromkeys(note_on(each.tokens, each.pairs.targets) for each in self._sets)
            for text in (f'BLEU is {scores["bleu_signature"]}', *filter(None, notes)):
                reporter.say(text)
        return scores

    def _translate(self, params: Params) -> Translated:
        found = {}
        for each in self._sets:
            chosen = sorted({i for one, i in (*self._scored, *self._samples) if one is each})
            if chosen:
                done = self._translator_of(params, each)([each.pairs.sources[i] for i in chosen])
                found |= {(each.name, i): one.text for i, one in zip(chosen, done, strict=True)}
        return found

    def _translator_of(self, params: Params, each: ValidationSet) -> Translator:
        """The run's translator, compiled once, with these parameters and the target language of a set."""
        config = self._config
        translator = Translator(
            config.model,
            params,
            self._tokenizer,
            replace(config.decoding, target_language=each.tag),
            parallel=config.parallel,
            source_language=each.source_language,
            target_language=each.target_language,
            programs=self._programs,
        )
        self._programs = translator.programs
        return translator

    def _draw(
        self, params: Params, step: int, each: ValidationSet, line: str, translation: str, reporter: Reporter
    ) -> None:
        """Draws the attention over a sample for TensorBoard; without matplotlib, says so once and gives up."""
        from flax_transformer.tasks.translation.inspection import attention_png

        try:
            reporter.picture(step, 'attention', attention_png(self._translator_of(params, each), line, translation))
        except ImportError:
            reporter.say(f'no pictures of attention: matplotlib is not installed: {install_command("plots")}')
            self._can_draw = False

    def _score(self, translations: Translated) -> dict[str, Any]:
        """BLEU; with several sets, that of each and their mean, since they may be in different languages."""
        scores, signatures = {}, {}
        for each in self._sets:
            chosen = [i for one, i in self._scored if one is each]
            if chosen:
                metric, lines = make_metrics(each.tokens)['bleu'], [translations[each.name, i] for i in chosen]
                scores[each.name] = metric.corpus_score(lines, [[each.pairs.targets[i] for i in chosen]]).score
                signatures[each.name] = str(metric.get_signature())
        if not scores:
            return {}
        shared = set(signatures.values())
        return {
            'bleu': sum(scores.values()) / len(scores),
            **({f'bleu/{name}': score for name, score in scores.items()} if len(scores) > 1 else {}),
            'bleu_sentences': len(self._scored),
            'bleu_signature': shared.pop() if len(shared) == 1 else '; '.join(map(' '.join, signatures.items())),
        }

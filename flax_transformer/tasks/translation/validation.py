"""Validation during training: the loss on the validation sets, BLEU, and a few sample translations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flax_transformer.common.installing import install_command
from flax_transformer.data.bitext.batches import Batch, loss_batches
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.task import Params
from flax_transformer.engine.trainer import Trainer
from flax_transformer.engine.validation import Validation

from .config import Config
from .inference.programs import Programs
from .inference.translator import Translator
from .metrics import make_metrics, note_on
from .preparation import Prepared, ValidationSet, interleaved, of_each_corpus

Translated = dict[tuple[str, int], str]  # translations by name of the set and index of the sentence


class TranslationValidation(Validation):
    """Scores the validation sets, and translates as `flax-transformer translate` would, for BLEU and for samples."""

    def __init__(self, config: Config, prepared: Prepared, trainer: Trainer) -> None:
        super().__init__(trainer)
        self._config = config
        self._tokenizer = prepared.tokenizer
        self._sets = prepared.validation

        count = config.training.evaluate_bleu
        if count is None:
            count = sum(len(validation_set.pairs) for validation_set in self._sets)
        self._scored = interleaved(self._sets, count)
        self._samples = interleaved(self._sets, config.training.sample_translations)
        self.predicts = bool(self._scored or self._samples)

        self._programs: Programs | None = None
        self._can_draw = config.training.draw_attention
        self._is_explained = False

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
        for number, (validation_set, i) in enumerate(self._samples, start=1):
            line = validation_set.pairs.sources[i]
            reference = validation_set.pairs.targets[i]
            translation = translations[validation_set.name, i]
            reporter.sample(step, number, source=line, reference=reference, translation=translation)
            if number == 1 and self._can_draw:
                self._draw(params, step, validation_set, line, translation, reporter)

        scores = self._score(translations)
        if scores and not self._is_explained:
            self._is_explained = True
            self._explain(scores, reporter)
        return scores

    def _explain(self, scores: dict[str, Any], reporter: Reporter) -> None:
        reporter.say(f'BLEU is {scores["bleu_signature"]}')
        notes = [note_on(validation_set.tokens, validation_set.pairs.targets) for validation_set in self._sets]
        for note in dict.fromkeys(filter(None, notes)):
            reporter.say(note)

    def _translate(self, params: Params) -> Translated:
        translated: Translated = {}
        for validation_set in self._sets:
            chosen = sorted({i for owner, i in (*self._scored, *self._samples) if owner is validation_set})
            if not chosen:
                continue
            translator = self._translator_of(params, validation_set)
            translations = translator([validation_set.pairs.sources[i] for i in chosen])
            for i, translation in zip(chosen, translations, strict=True):
                translated[validation_set.name, i] = translation.text
        return translated

    def _translator_of(self, params: Params, validation_set: ValidationSet) -> Translator:
        """The run's translator, compiled once, with these parameters and the target language of a set."""
        config = self._config
        translator = Translator(
            config.model,
            params,
            self._tokenizer,
            replace(config.decoding, target_language=validation_set.tag),
            parallel=config.parallel,
            source_language=validation_set.source_language,
            target_language=validation_set.target_language,
            programs=self._programs,
        )
        self._programs = translator.programs
        return translator

    def _draw(
        self,
        params: Params,
        step: int,
        validation_set: ValidationSet,
        line: str,
        translation: str,
        reporter: Reporter,
    ) -> None:
        """Draws the attention over a sample for TensorBoard; without matplotlib, says so once and gives up."""
        from .inspection import attention_png

        translator = self._translator_of(params, validation_set)
        try:
            reporter.picture(step, 'attention', attention_png(translator, line, translation))
        except ImportError:
            reporter.say(f'no pictures of attention: matplotlib is not installed: {install_command("plots")}')
            self._can_draw = False

    def _score(self, translations: Translated) -> dict[str, Any]:
        """BLEU; with several sets, that of each and their mean, since they may be in different languages."""
        bleu: dict[str, float] = {}
        signatures: dict[str, str] = {}
        for validation_set in self._sets:
            name = validation_set.name
            chosen = [i for owner, i in self._scored if owner is validation_set]
            if not chosen:
                continue
            metric = make_metrics(validation_set.tokens)['bleu']
            lines = [translations[name, i] for i in chosen]
            references = [validation_set.pairs.targets[i] for i in chosen]
            bleu[name] = metric.corpus_score(lines, [references]).score
            signatures[name] = str(metric.get_signature())
        if not bleu:
            return {}

        scores: dict[str, Any] = {'bleu': sum(bleu.values()) / len(bleu)}
        if len(bleu) > 1:
            scores |= {f'bleu/{name}': score for name, score in bleu.items()}
        scores['bleu_sentences'] = len(self._scored)
        different = set(signatures.values())
        if len(different) == 1:
            scores['bleu_signature'] = different.pop()
        else:
            scores['bleu_signature'] = '; '.join(f'{name} {signature}' for name, signature in signatures.items())
        return scores

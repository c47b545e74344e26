"""The pairs of languages that models know, a translator for each, and which of them a request means."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from flax_transformer.common.errors import NoLanguages, UserError
from flax_transformer.data.audit.language import certain_language, identifier_of, is_language
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.tasks.api import read_run_config
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.text.languages import UNDETERMINED, known_language, name_of, two_letters, usual_name

from .fields import Refused

# A model in Hugging Face's format has one of these files, and no run does.
_MARIAN = 'source.spm'
_OTHERS = 'tokenizer_config.json'
_MOST_MADE = 1000  # directions of a model that are kept
_LISTED = 20  # pairs, in messages
# Confidence that a text is in a language that is not translated; of English and German texts of two to five words none
# was taken for the other one, of single words 1 in 500.
_CERTAIN = 80


class Direction(NamedTuple):
    """A pair of languages and its translators, which share their compiled programs."""

    source: str
    target: str
    model: str  # the reference that loads it; '' if source and target are one language
    best: Translator  # one translation of each line
    every: Translator  # gives the alternatives that the search has found, too
    version: int = 0  # of what was learned from corrections; 0: nothing


class Directions:
    """A model and the pairs of languages that it knows, by their usual names."""

    def __init__(self, name: str, translator: Translator, codes: Iterable[tuple[str, str]]) -> None:
        """`codes` are the pairs as the model names them."""
        self.name = name
        self.translator = translator
        codes = list(codes)
        known = dict.fromkeys(itertools.chain.from_iterable(codes))
        usual = {code: usual_name(code, known) for code in known}
        self.pairs = {(usual[source], usual[target]): (source, target) for source, target in codes}
        self._made: dict[tuple[str, str], Direction] = {}  # NLLB-200 has 40,602 pairs

    @classmethod
    def load(
        cls,
        reference: str,
        parallel: ParallelConfig,
        by: Callable[[Translator], Translator] = lambda translator: translator,
        **decoding: Any,
    ) -> Self:
        """The directions of a run, or of a folder in Hugging Face's format, with other settings of the search.

        `by` gives the translator the engine that it searches with.
        Raises UserError if it cannot be read, or if nothing names its languages.
        """
        if not is_folder(reference):
            is_open = read_run_config(reference).data.target_language == UNDETERMINED
            any_one = {'target_language': 'en'} if is_open else {}
            translator = Translator.from_run(reference, parallel=parallel, **any_one | decoding)
        else:
            # Every direction names its languages; a model that knows many is loaded with any one of them.
            any_one = {} if (Path(reference) / _MARIAN).is_file() else {'target_language': 'en'}
            try:
                translator = Translator.from_huggingface(reference, parallel=parallel, **any_one | decoding)
            except NoLanguages:
                raise UserError(
                    f'{reference}: nothing names its languages; serve a run that does: flax-transformer '
                    f'import-huggingface {reference} RUN --source-language en --target-language de'
                ) from None
        return cls(reference, by(translator), _pairs(reference, translator))

    def direction(self, source: str, target: str) -> Direction:
        made = self._made.get((source, target)) or self._make(source, target)
        if len(self._made) > _MOST_MADE:
            self._made.clear()
        return self._made.setdefault((source, target), made)

    def _make(self, source: str, target: str) -> Direction:
        best = self.translator
        if (source, target) not in self.pairs:  # one language
            same = best.with_decoding(best.decoding)
            same.gives_back = True
            return Direction(source, target, '', same, same)
        if best.tokenizer.languages:
            first, second = self.pairs[source, target]
            best = best.with_decoding(replace(best.decoding, source_language=first, target_language=second))
        every = best.with_decoding(replace(best.decoding, n_best=best.decoding.num_candidates))
        return Direction(source, target, self.name, best, every)


def is_folder(reference: str) -> bool:
    """Whether a reference is a folder in Hugging Face's format."""
    return any((Path(reference) / name).is_file() for name in (_MARIAN, _OTHERS))


def _pairs(reference: str, translator: Translator) -> Iterable[tuple[str, str]]:
    tags = list(translator.tokenizer.languages)
    settings = getattr(translator.tokenizer, 'settings', None)
    if translator.pairs:
        return translator.pairs
    if translator.first_id is not None or (tags and settings is None):  # any language may be translated into any
        return itertools.permutations(tags, 2)

    source, target = ((settings or {}).get(f'{side}_lang') for side in ('source', 'target'))
    targets = tags or [target]
    if not source or not all(targets):
        raise UserError(
            f'{reference}: tokenizer_config.json names no languages; add source_lang and target_lang, such as "en" and '
            '"de"'
        )
    return [(source, target) for target in targets]


class Served:
    """The directions of all models; the first model named serves a pair that several know."""

    def __init__(self, models: Sequence[Directions]) -> None:
        self.models = models
        self.pairs: dict[tuple[str, str], Directions] = {}
        self.targets_of: dict[str, list[str]] = {}
        for model in models:
            for source, target in model.pairs:
                if self.pairs.setdefault((source, target), model) is model:
                    self.targets_of.setdefault(source, []).append(target)
        self.targets = list(dict.fromkeys(target for _, target in self.pairs))
        # A search finds this many more than the best.
        self.num_alternatives = max(model.translator.decoding.num_candidates for model in models) - 1
        self._identifier = identifier_of([*self.targets_of, *self.targets])

    def __str__(self) -> str:
        listed = ', '.join(f'{source}-{target}' for source, target in itertools.islice(self.pairs, _LISTED))
        left = len(self.pairs) - _LISTED
        return f'{listed} and {left:,} more pairs, which /languages lists' if left > 0 else listed

    @property
    def engines(self) -> list[str]:
        """In what each model computes, and where."""
        translators = [model.translator for model in self.models]
        kinds = ['int8' if made.programs.uses_int8 else 'float32' for made in translators]
        devices = [made.runner.devices.devices[0].device_kind for made in translators]
        return [f'{kind} on {device}' for kind, device in zip(kinds, devices, strict=True)]

    def pair(self, source: str, target: str) -> tuple[str | None, str]:
        """The served languages that are meant; None for an empty source. Raises Refused, which lists what is served."""
        languages = {**self.targets_of, **dict.fromkeys(self.targets)}
        second = self._known(target, languages if source else self.targets)
        first = self._known(source, languages) if source else None
        if first in (None, second) or (first, second) in self.pairs:
            return first, second
        raise self._refused(f'{source}-{target}')

    def _known(self, language: str, served: Collection[str]) -> str:
        """The served language that is meant, such as `en` by `en-GB`."""
        try:
            return known_language('language', language, served)
        except UserError:
            raise self._refused(language) from None

    def _refused(self, what: str) -> Refused:
        return Refused(400, f'{what[:80]} is not supported; this server translates {self}')

    def directions(self, texts: Sequence[str], source: str, target: str) -> Iterator[tuple[Direction, float]]:
        """Yields the direction of each text, and the confidence that the text is in its source language, 0 to 100.

        With `source` empty or `auto`, by the language of the text: one that is in the target language stays; so does
        one, among others, that is in a language which cannot be translated. Raises Refused.
        """
        first, second = self.pair('' if source.lower() == 'auto' else source, target)
        stays = len(texts) > 1
        for text in texts:
            known, confidence = (first, 100.0) if first else self._source_of(text, second, stays=stays)
            yield self.pairs.get((known, second), self.models[0]).direction(known, second), confidence

    def _source_of(self, text: str, target: str, *, stays: bool) -> tuple[str, float]:
        """The language of a text, and the confidence, 0 to 100; of a short one, what can be translated is likelier."""
        ranked = self.detect(text)
        language, confidence = ranked[0]
        is_certain = confidence > _CERTAIN
        if (language, target) in self.pairs or (is_certain and (stays or language == target)):
            return ranked[0]
        if is_certain:
            raise self._refused(f'{language}-{target} (the text is in {name_of(language)})')
        return next(other for other in ranked if (other[0], target) in self.pairs)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The languages served, on either side, with confidences from 0 to 100, the best first.

        Before them another language, if the text is certainly in it.
        """
        text = _prose(text)
        ranks = dict(self._identifier.rank(text)) if any(map(str.isalpha, text)) else {}
        served = dict.fromkeys([*self.targets_of, *self.targets])
        ranked = [(language, 100 * float(ranks.get(two_letters(language), 0.0))) for language in served]
        ranked.sort(key=lambda pair: -pair[1])
        language, confidence = certain_language(text) or ('', 0.0)
        is_served = not language or any(is_language(language, code) for code in served)
        return ranked if is_served else [(language, 100 * float(confidence)), *ranked]


def _prose(text: str) -> str:
    """The words of a text, without tags, addresses and names of accounts."""
    words = re.sub('<[^<>]*>', ' ', text).split()
    return ' '.join(word for word in words if not re.search('://|^www[.]|[@#]', word))

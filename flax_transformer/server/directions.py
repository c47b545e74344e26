"""The pairs of languages that models know, a translator for each, and which of them a request means."""

import functools
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.language import identifier_of
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.languages import known_language, two_letters, usual_name

from .fields import Refused

# A model in Hugging Face's format has one of these files, and no run does.
_MARIAN = 'source.spm'
_FAIRSEQ = 'sentencepiece.bpe.model'
_LISTED = 20  # pairs, in messages


class Direction(NamedTuple):
    """A pair of languages and its translators, which share their compiled programs."""

    source: str
    target: str
    model: str  # the reference that loads it
    best: Translator  # one translation of each line
    every: Translator  # gives the alternatives that the search has found, too


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
        self.direction = functools.lru_cache(maxsize=1024)(self._direction)  # NLLB-200 has 40,602 pairs

    @classmethod
    def load(cls, reference: str, parallel: ParallelConfig, **decoding: Any) -> Self:
        """The directions of a run, or of a folder in Hugging Face's format, with other settings of the search.

        Raises UserError if it cannot be read, or if nothing names its languages.
        """
        if not is_folder(reference):
            translator = Translator.from_run(reference, parallel=parallel, **decoding)
        else:
            # Every direction names its languages; a model that knows many is loaded with any one of them.
            any_one = {} if (Path(reference) / _MARIAN).is_file() else {'target_language': 'en'}
            translator = Translator.from_huggingface(reference, parallel=parallel, **any_one | decoding)
        return cls(reference, translator, _pairs(reference, translator))

    def _direction(self, source: str, target: str) -> Direction:
        best = self.translator
        if best.tokenizer.languages:
            first, second = self.pairs[source, target]
            best = best.with_decoding(replace(best.decoding, source_language=first, target_language=second))
        every = best.with_decoding(replace(best.decoding, n_best=best.decoding.num_candidates))
        return Direction(source, target, self.name, best, every)


def is_folder(reference: str) -> bool:
    """Whether a reference is a folder in Hugging Face's format."""
    return any((Path(reference) / name).is_file() for name in (_MARIAN, _FAIRSEQ))


def _pairs(reference: str, translator: Translator) -> Iterable[tuple[str, str]]:
    tags = list(translator.tokenizer.languages)
    if translator.first_id is not None:  # sources and targets name their languages
        return itertools.permutations(tags, 2)
    if not is_folder(reference):
        data = Run(split_reference(reference)[0]).read_config().data
        if tags and not data.language_tags:  # Marian's, imported
            return [(data.source_language, tag) for tag in tags]
        return dict.fromkeys(corpus.languages for corpus in data.corpora)

    source, target = (translator.tokenizer.settings.get(f'{side}_lang') for side in ('source', 'target'))
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
        self._identifier = identifier_of(list(self.targets_of))

    def __str__(self) -> str:
        listed = ', '.join(f'{source}-{target}' for source, target in itertools.islice(self.pairs, _LISTED))
        left = len(self.pairs) - _LISTED
        return f'{listed} and {left:,} more pairs, which /languages lists' if left > 0 else listed

    def pair(self, source: str, target: str) -> tuple[str | None, str]:
        """The served languages that are meant; None for an empty source. Raises Refused, which lists what is served."""
        first = _known(source, self.targets_of)
        second = _known(target, self.targets)
        if second is None:
            unknown = target
        elif source and first is None:
            unknown = source
        elif source and (first, second) not in self.pairs:
            unknown = f'{source}-{target}'
        else:
            return first, second
        raise Refused(400, f'{unknown[:80]} is not supported; this server translates {self}')

    def directions(self, texts: Sequence[str], source: str, target: str) -> list[tuple[Direction, float]]:
        """The direction of each text, and the confidence that the text is in its source language, 0 to 100.

        With `source` empty, by the language of the text. Raises Refused.
        """
        first, second = self.pair(source, target)
        languages = [(first, 100.0) if first else self.detect(text, second)[0] for text in texts]
        return [(self.pairs[known, second].direction(known, second), confidence) for known, confidence in languages]

    def detect(self, text: str, target: str | None = None) -> list[tuple[str, float]]:
        """The served source languages, of a target if one is given, with confidences from 0 to 100, the best first."""
        possible = [source for source in self.targets_of if target is None or (source, target) in self.pairs]
        ranks = dict(self._identifier.rank(text)) if any(map(str.isalpha, text)) else {}
        confidences = [(source, 100 * float(ranks.get(two_letters(source), 0.0))) for source in possible]
        return sorted(confidences, key=lambda pair: -pair[1])


def _known(language: str, served: Collection[str]) -> str | None:
    """The served language that is meant, such as `en` by `en-GB`."""
    try:
        return known_language('language', language.strip(), served)
    except UserError:
        return None

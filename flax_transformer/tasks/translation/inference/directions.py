"""The pairs of languages that a model knows, and a translator for each."""

import functools
import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.languages import usual_name

from .translator import Translator

# A model in Hugging Face's format has one of these files, and no run does.
_MARIAN = 'source.spm'
_FAIRSEQ = 'sentencepiece.bpe.model'


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
        """Those of a run, or of a folder in Hugging Face's format; `decoding` overrides fields of its settings.

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
            languages = zip(('source_language', 'target_language'), self.pairs[source, target], strict=True)
            best = best.with_decoding(replace(best.decoding, **dict(languages)))
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
            f'{reference}: tokenizer_config.json names no languages; expected source_lang and target_lang, such as '
            '"en" and "de": add them'
        )
    return [(source, target) for target in targets]

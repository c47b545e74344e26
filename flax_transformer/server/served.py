"""The models that a server holds, the directions they translate in, and the language of a text."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.language import code_of, identifier_of
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.tasks.find import read_run_config
from flax_transformer.tasks.translation.inference.translator import Translator

# A model in Hugging Face's format has one of these files, and no run does.
_FILES = ('source.spm', 'sentencepiece.bpe.model')
_is_folder = lambda reference: any((Path(reference) / name).is_file() for name in _FILES)
PAGE = Path(__file__).parent / 'page'
_NAMES = json.loads((PAGE / 'languages.json').read_text(encoding='utf-8'))


def name_of(language: str) -> str:
    """The English name of a language; its code if it is a rare one."""
    return _NAMES.get(code_of(language), language)


class Direction(NamedTuple):
    """A pair of languages and its translators, which share their compiled programs."""

    source: str
    target: str
    model: str  # as it was named on the command line
    best: Translator  # one translation of each line
    every: Translator  # gives the alternatives that the search has found, too


class Served:
    """The directions of all models; the first model named serves a pair that several know."""

    def __init__(self, directions: Iterable[Direction]) -> None:
        self.directions: dict[tuple[str, str], Direction] = {}
        for direction in directions:
            self.directions.setdefault((direction.source, direction.target), direction)
        self.sources = list(dict.fromkeys(source for source, _ in self.directions))
        self.targets = list(dict.fromkeys(target for _, target in self.directions))
        self.pairs = ', '.join(f'{source}-{target}' for source, target in self.directions)  # messages list them
        # A search finds this many more than the best.
        self.num_alternatives = max(each.best.decoding.num_candidates for each in self.directions.values()) - 1
        self._identifier = identifier_of(self.sources)

    def targets_of(self, source: str) -> list[str]:
        return [target for each, target in self.directions if each == source]

    def detect(self, text: str, target: str | None = None) -> list[tuple[str, float]]:
        """The served source languages, with confidences from 0 to 100, the best first.

        With a target, only those from which it is translated. A text without letters gives no confidence.
        """
        possible = [each for each in self.sources if target is None or (each, target) in self.directions]
        ranks = dict(self._identifier.rank(text)) if any(map(str.isalpha, text)) else {}
        found = [(each, 100 * float(ranks.get(code_of(each), 0.0))) for each in possible]
        return sorted(found, key=lambda pair: -pair[1])


def served_language(language: str, served: Sequence[str]) -> str | None:
    """The served language that is meant: `en-GB` stands for a served `en`, and the case does not matter."""
    wanted = language.strip().lower().replace('_', '-')
    same = [each for each in served if each.lower().replace('_', '-') == wanted]
    return next(iter(same or [each for each in served if code_of(each) == code_of(wanted)]), None)


def check(references: Sequence[str]) -> None:
    """Raises UserError for neither a translation run nor a folder of Hugging Face's, before anything is loaded."""
    for reference in references:
        if not _is_folder(reference):
            read_run_config(reference, 'translation')


def load(references: Sequence[str], changes: dict[str, Any], parallel: ParallelConfig) -> list[Direction]:
    """The directions of runs and of Hugging Face's folders; `changes` are fields of their decoding sections.

    Raises UserError if one cannot be read, or if its languages are not known.
    """
    found: list[Direction] = []
    for reference in references:
        if _is_folder(reference):
            translator = Translator.from_huggingface(reference, parallel=parallel, **changes)
            pairs = _pairs_of_folder(reference, translator)
        else:
            translator = Translator.from_run(reference, parallel=parallel, **changes)
            corpora = read_run_config(reference, 'translation').data.corpora
            pairs = list(dict.fromkeys(corpus.languages for corpus in corpora))
        for source, target in pairs:
            best = translator
            if translator.tokenizer.languages:
                languages = {'source_language': source, 'target_language': target}
                best = translator.with_decoding(replace(translator.decoding, **languages))
            every = best.with_decoding(replace(best.decoding, n_best=best.decoding.num_candidates))
            found.append(Direction(source, target, str(reference), best, every))
    return found


def _pairs_of_folder(folder: str, translator: Translator) -> list[tuple[str, str]]:
    settings = translator.tokenizer.settings
    if translator.first_id is not None:  # it translates from one language into all others
        source = translator.tokenizer.source_language
        return [(source, target) for target in translator.tokenizer.languages if target != source]
    source, target = settings.get('source_lang'), settings.get('target_lang')
    targets = list(translator.tokenizer.languages) or [target]
    if not source or not all(targets):
        raise UserError(
            f'{folder}: tokenizer_config.json names no languages; expected source_lang and target_lang, such as "en" '
            'and "de": add them'
        )
    return [(source, each) for each in targets]

"""Lines of text in, translations out: one for each line, in order, independent of the other lines."""

import copy
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, overload

import jax
import numpy as np

from flax_transformer.common.chunks import Streams
from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.memory import give_memory_back
from flax_transformer.decoding.config import DecodingConfig, override
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.ops.decoding_weights import is_exact, to_params
from flax_transformer.tasks.translation.config import ModelConfig
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.loading import load_ensemble
from flax_transformer.tasks.translation.model import TranslationModel, make_model
from flax_transformer.tasks.translation.words import TrainingWords
from flax_transformer.text.languages import two_letters
from flax_transformer.text.tokenizer import Tokenizer, as_text

from .aside import translate_aside
from .asked import Asked
from .directions import Pairs, direction, pairs_of
from .lines import Line, split_into_parts
from .literals import Literals
from .marked import Marked
from .noisy_channel import WayBack
from .part_translator import PartTranslator
from .programs import UNUSED, Programs
from .quality import Calibration
from .result import (
    Translation,
    Translations,
    joined_lines,
    make_translation,
    on_one_line,
    text_of,
    unchanged,
)
from .terms import Demand, Phrase, demands_of_line, demands_of_parts, with_marks

Model = ModelConfig | TranslationModel


class Translator(PartTranslator, Streams):
    """`translator(lines)` translates lines of text, `translator(line)` one."""

    version: int = 0  # of what was learned from corrections
    _read: Callable[[], Any] | None = None  # reads the parameters again
    origin: object = None  # the same for all translators whose parameters were read at once

    def __init__(
        self,
        model: Model | Sequence[Model],
        params: Any,
        tokenizer: Tokenizer,
        decoding: DecodingConfig | None = None,
        *,
        parallel: ParallelConfig | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        programs: Programs | None = None,
        calibration: Calibration | None = None,
        pairs: Pairs = (),
        words: TrainingWords | None = None,
    ) -> None:
        """A translator of models that are in memory.

        Args:
          model: a Linen module, or a config's model section; several are an ensemble.
          params: its parameters; for an ensemble the tuple of its members'.
          source_language: whose rules split_sentences follows, and whose tag begins sources.
          target_language: whose tokens BLEU counts.
          programs: compiled for the same models, tokenizer and search.
          pairs: the source and target languages that the model has learned; (): not known.
          words: of its training, which tell names that it has never seen.
        """
        decoding = decoding or DecodingConfig()
        self.pairs = pairs
        self.words = words
        source, target = direction(pairs, decoding.source_language, decoding.target_language)
        if pairs and target is not None:  # as a tag, if the model has tags
            own = target if decoding.target_language else tokenizer.default_language(target)
            decoding = replace(decoding, target_language=own if tokenizer.languages else None)
        self.decoding = decoding
        self.source_language = source or source_language or getattr(tokenizer, 'source_language', 'en')
        self.target_language = target or target_language
        languages = self.source_language, self.target_language
        self.gives_back = bool(pairs) and len({*languages}) == 1 and languages not in pairs  # each line as it is
        self.tokenizer = tokenizer.reading(self.source_language)
        self.tokenizer.tag_id(self.decoding.target_language)  # refuses an unknown language now
        self.first_id = self.tokenizer.first_id(self.decoding.target_language)  # begins every target
        self.way_back = None
        if self.target_language in decoding.noisy_channel and decoding.search == 'beam' and decoding.mbr == 'none':
            self.way_back = WayBack.between(self.source_language, self.target_language, tokenizer, pairs)
        self.calibration = calibration
        self._params = params  # float32; None: freed
        if programs is None:
            models = model if isinstance(model, Sequence) else [model]
            programs = Programs(list(map(make_model, models)), self.tokenizer, self.decoding, parallel)
        self.programs = programs
        self.models = programs.models  # several are an ensemble
        self.model = self.models[0]

    @classmethod
    def from_run(
        cls,
        path: Path | str,
        *others: Path | str,
        step: int | None = None,
        parallel: ParallelConfig | None = None,
        **decoding: Any,
    ) -> Self:
        """The translator of a run directory's best checkpoint, or of the mean that training.average_last asks for.

        `step`, or a path such as `RUN@12000`, `RUN@last`, `RUN@best` or `RUN@average`, chooses another. Further runs
        make an ensemble with the first one's settings. `decoding` overrides fields of the run's DecodingConfig.
        """
        use_compilation_cache()
        runs = load_ensemble((path, *others), step=step, **decoding)
        config, params, tokenizer, words = runs[0]
        data = config.data
        settings = config.decoding
        pairs = pairs_of(data, tokenizer)
        if settings.target_language is None and not (pairs and settings.source_language):
            settings = replace(settings, target_language=tokenizer.default_language(data.target_language))
        translator = cls(
            [run.config.model for run in runs],
            tuple(run.params for run in runs) if others else params,
            tokenizer,
            settings,
            parallel=parallel,
            source_language=data.source_language,
            target_language=data.target_language,
            calibration=None if others else Calibration.read(split_reference(path)[0]),
            pairs=pairs,
            words=words,
        )
        del runs, params  # else they stay until the end of this function
        return translator._loaded(partial(_params_of_runs, (path, *others), step))

    @classmethod
    def from_huggingface(cls, folder: Path | str, *, parallel: ParallelConfig | None = None, **decoding: Any) -> Self:
        """The translator of a folder in Hugging Face's format: Marian, NLLB-200, M2M-100, mBART-50 or T5 (MADLAD-400).

        `decoding` overrides the model's own settings; models of many languages need a target_language.
        """
        use_compilation_cache()
        config, params, tokenizer, own = _pretrained(folder)
        translator = cls(config, params, tokenizer, override(own, decoding), parallel=parallel)
        del params  # else they stay until the end of this function
        return translator._loaded(partial(_params_of_folder, folder))

    from_marian = from_huggingface

    @classmethod
    def from_pretrained(cls, name: str, *, download: bool = False, **options: Any) -> Self:
        """The translator of a run, or of a model of Hugging Face's hub, OWNER/NAME[@REVISION].

        What the hub's cache lacks is taken if `download`. `options` are those of `from_huggingface`.
        """
        from flax_transformer.huggingface.hub import fetch

        if split_reference(name)[0].is_dir() and not download:
            return cls.from_run(name, **options)
        return cls.from_huggingface(fetch(name, download=download), **options)

    def _loaded(self, read: Callable[[], Any]) -> Self:
        """This translator, which alone holds its parameters; frees them if its programs take others."""
        self._read = read
        self.origin = object()
        self.weights = self.programs.weights_of(self._params, frees=True)
        if any(map(operator.is_not, jax.tree.leaves(self.weights), jax.tree.leaves(self._params))):
            jax.block_until_ready(self.weights)
            self._params = None
            give_memory_back()
        return self

    def with_params(self, params: Any, *, target_language: str | None = None) -> Self:
        """The same translator and compiled programs with other parameters of the same shapes."""
        decoding = replace(self.decoding, target_language=target_language or self.decoding.target_language)
        return self._like(params, decoding, programs=self.programs)

    def share_programs(self, other: 'Translator') -> None:
        """Uses the compiled programs of another translator, if they are the same."""
        own, others = (
            (made.models, made.tokenizer.digest, made.decoding, made.parallel)
            for made in (self.programs, other.programs)
        )
        if own == others:
            self.programs = other.programs

    def with_decoding(self, decoding: DecodingConfig) -> Self:
        """The same models with another search, and the same compiled programs and weights where they serve it."""
        own = self.decoding
        is_compiled = all(getattr(decoding, name) == value for name, value in vars(own).items() if name not in UNUSED)
        params = self._params if decoding.weights == own.weights else self.params
        same = {'programs': self.programs} if is_compiled else {'parallel': self.programs.parallel}
        return self._like(params, decoding, **same)

    def _like(self, params: Any, decoding: DecodingConfig, **options: Any) -> Self:
        names = ('source_language', 'target_language', 'calibration', 'pairs', 'words')
        same = {name: getattr(self, name) for name in names}
        other = type(self)(self.models, params, self.tokenizer, decoding, **same, **options)
        other._read = self._read
        other.version = self.version
        other.origin = self.origin
        is_same = params is self._params and decoding.weights == self.decoding.weights
        if is_same:
            other.weights = self.weights  # once in memory
        return other

    def through(self, translate_parts: Callable[[Self, Asked], list[Translation]]) -> Self:
        """This translator, whose parts a function translates in its place, such as together with other callers'."""
        other = copy.copy(self)
        other.translate_parts = partial(translate_parts, self)
        return other

    @property
    def languages(self) -> str:
        return f'{self.source_language} to {self.target_language or "any"}'

    def __repr__(self) -> str:
        models = ' and '.join(type(model).__name__ for model in self.models)
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(self.weights)) / 1e6
        return f'<Translator: {models}, {self.languages}, {size:.1f} MB of parameters on {self.runner.devices}>'

    @property
    def params(self) -> Any:
        """The parameters, float32; if they were freed, rebuilt from the weights, or read again if those are rounded."""
        if self._params is not None:
            return self._params
        return to_params(self.weights) if is_exact(self.weights) else self._read()

    @cached_property
    def weights(self) -> Any:
        """The parameters as the programs take them."""
        return self.programs.weights_of(self.params)

    @overload
    def __call__(self, lines: str | bytes | Marked, **options: Any) -> Translation: ...

    @overload
    def __call__(self, lines: Sequence[str | bytes | Marked], **options: Any) -> Translations: ...

    def __call__(
        self,
        lines: str | bytes | Marked | Sequence[str | bytes | Marked],
        *,
        prefixes: str | Sequence[str | bytes | None] | None = None,
        required: Sequence[Sequence[Phrase] | None] | None = None,
        glossary: Glossary | None = None,
        alignment: bool = False,
        progress: Callable[[int], None] | None = None,
        target_language: str | None = None,
        source_language: str | None = None,
    ) -> Translation | Translations:
        """One translation for each line, in order; a blank line gives a blank one without asking the model.

        Args:
          lines: sentences without line ends; bytes are read as UTF-8, and invalid ones become U+FFFD and are flagged.
            Tags and literals of a Marked line come back in place. A single line gives a single translation.
          prefixes: what each line's translation begins with, or '' or None.
          required: phrases that each line's translation must contain, or lists of alternatives; `missing` of a
            translation has those that it lacks all the same. A line with a prefix or such phrases is not split.
          glossary: terms, which are required where they are found.
          alignment: whether to say which source word each word comes from; takes a second pass.
          progress: called with the number of sentences of each finished batch.
          target_language, source_language: other languages than this translator's.
        """
        if target_language or source_language:
            languages = {'target_language': target_language, 'source_language': source_language}
            wishes = {'prefixes': prefixes, 'required': required, 'glossary': glossary, 'alignment': alignment}
            return self.with_decoding(replace(self.decoding, **languages))(lines, **wishes, progress=progress)
        if isinstance(prefixes, str):
            prefixes = [prefixes]
        is_single = isinstance(lines, (str, bytes, Marked))
        if is_single:
            lines = [lines]
            required = None if required is None else [required]
        for name, given in (('prefixes', prefixes), ('lists of required phrases', required)):
            if given is not None and len(given) != len(lines):
                raise ValueError(f'{len(given)} {name}, {len(lines)} lines; expected equal numbers')
        before = self.runner.num_compilations
        result = translate_aside(
            self._translated,
            lines,
            mark=partial(self._literals.mark, glossary=glossary) if self._marks_lines else None,
            prefixes=prefixes,
            required=required,
            glossary=glossary,
            alignment=alignment,
            can_align=self.can_align,
            adds_stop=self.tokenizer.has_piece_for('.'),
            progress=progress,
        )
        for i, line in enumerate(lines):
            if not isinstance(line, Marked):
                is_replaced = result[i].replaced or as_text(line)[1]
                result[i] = replace(on_one_line(result[i]), replaced=is_replaced)
        result.num_compilations = self.runner.num_compilations - before
        return result[0] if is_single else result

    def _translated(
        self,
        lines: Sequence[str | bytes],
        *,
        prefixes: Sequence[str | bytes | None] | None,
        required: Sequence[Sequence[Phrase] | None] | None,
        glossary: Glossary | None,
        alignment: Sequence[bool],
        progress: Callable[[int], None] | None,
    ) -> Translations:
        if self.gives_back:
            return Translations(map(unchanged, lines, alignment))
        demands = [
            demands_of_line(text, number, required and required[number], glossary)
            for number, text in enumerate(_texts(lines))
        ]
        split = [self._split(*pair) for pair in zip(lines, demands, strict=True)]
        for number, line in enumerate(split):
            if (prefixes and prefixes[number]) or any(demand.span is None for demand in demands[number]):
                split[number] = line.whole()
        begins = None if prefixes is None else self._encode_prefixes(split, prefixes)

        parts = [part for line in split for part in line.parts]
        sources = self._encode(parts)
        ids_of_parts = iter(sources)
        longest = [max(itertools.islice(ids_of_parts, len(line.parts)), key=len, default=[]) for line in split]
        self.programs.check_lengths('line', [line.text for line in split], longest)
        demands = demands_of_parts(split, demands, sources, self.tokenizer)
        marked = with_marks(sources, demands, self.tokenizer, self.programs.max_source_tokens)

        links = tuple(wanted for line, wanted in zip(split, alignment, strict=True) for _ in line.parts)
        translations = self.translate_parts(Asked(parts, marked, begins, demands, links, progress))
        return joined_lines(split, self._judged(translations, sources), sources)

    @property
    def can_align(self) -> bool:
        return all(hasattr(model, 'cross_attention') for model in self.models)

    @property
    def _marks_lines(self) -> bool:
        return self.decoding.literals != 'ignored' and not self.gives_back

    @cached_property
    def _literals(self) -> Literals:
        return Literals(self.tokenizer, self.source_language, self.decoding, self.words)

    def _split(self, line: str | bytes, demands: Sequence[Demand]) -> Line:
        language = two_letters(self.source_language) if self.decoding.split_sentences else None
        spans = [demand.span for demand in demands if demand.span]
        limit = self.programs.max_source_tokens
        return split_into_parts(line, self._count_tokens, limit, language, spans, in_cells=self._marks_lines)

    def _count_tokens(self, text: str) -> int:
        return len(self._encode([text])[0])

    def _encode_prefixes(self, split: Sequence[Line], prefixes: Sequence[str | bytes | None]) -> list[list[int]]:
        texts = _texts(prefix or '' for prefix in prefixes)
        encoded = self.tokenizer.encode_target(texts)
        self.programs.check_lengths('prefix', texts, encoded)
        return [ids[:-1] for ids, line in zip(encoded, split, strict=True) for _ in line.parts]

    def _encode(self, sources: Sequence[str]) -> list[list[int]]:
        sources = [source.replace('\xad', '') for source in sources]  # soft hyphens would part words
        return self.tokenizer.encode(sources, target_language=self.decoding.target_language)

    def score(
        self,
        sources: str | bytes | Sequence[str | bytes],
        targets: str | bytes | Sequence[str | bytes],
        *,
        alignment: bool = False,
    ) -> Translation | Translations:
        """The given targets as translations of the sources, scored as this search would rank them.

        No line is split. A single pair in place of lists gives a single translation.
        """
        if isinstance(sources, (str, bytes)) or isinstance(targets, (str, bytes)):
            return self.score([sources], [targets], alignment=alignment)[0]
        sources, targets = _texts(sources), _texts(targets)
        if len(sources) != len(targets):
            raise ValueError(f'{len(sources)} sources, {len(targets)} targets; expected equal numbers')
        columns = self._encode(sources), self.encode_target(targets)
        self.programs.check_lengths('source', sources, columns[0])
        self.programs.check_lengths('target', targets, columns[1])

        scored = self.runner.map(self.programs.score_ids, self.weights, columns)
        self.programs.check_numbers(self.weights, (total for total, _ in scored))
        links = self.links(*columns) if alignment else [None] * len(sources)
        translations = []
        for target, ids, (total, gains), link in zip(targets, columns[1], scored, links, strict=True):
            translation = make_translation(self.tokenizer, ids, total, gains[: len(ids)], is_finished=True)
            translations.append(replace(translation, text=target, alignment=link))
        return Translations(self._judged(translations, columns[0]))

    def _judged(self, translations: list[Translation], sources: Sequence[Sequence[int]]) -> list[Translation]:
        if not self.calibration:
            return translations
        return [self.calibration.judged(*pair) for pair in zip(translations, map(len, sources), strict=True)]

    def encode(self, lines: str | bytes | Sequence[str | bytes]) -> np.ndarray:
        """Source ids [B, S] int32 of B lines, as `translate_ids` takes them; S is the bucket of the longest line.

        None is split. Raises BadLine for one that the model cannot read whole.
        """
        texts = _texts([lines] if isinstance(lines, (str, bytes)) else lines)
        ids = self._encode(texts)
        self.programs.check_lengths('line', texts, ids)
        return self.runner.padded(ids)

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of target text, after the tag of the target language if targets begin with it."""
        first = [] if self.first_id is None else [self.first_id]
        return [[*first, *ids] for ids in self.tokenizer.encode_target(texts)]

    def decode(self, tokens: Any) -> list[str]:
        """The text, up to EOS, of each row of target ids [B, L], such as `translate_ids(...).tokens[:, 0]`."""
        eos_id = self.tokenizer.eos_id
        rows = np.asarray(tokens).tolist()
        return [text_of(self.tokenizer, row[: [*row, eos_id].index(eos_id)]) for row in rows]


def _texts(lines: Iterable[str | bytes]) -> list[str]:
    return [as_text(line)[0] for line in lines]


def _params_of_runs(references: Sequence[Path | str], step: int | None) -> Any:
    runs = load_ensemble(references, step=step)
    return tuple(run.params for run in runs) if len(runs) > 1 else runs[0].params


def _params_of_folder(folder: Path | str) -> Any:
    return _pretrained(folder).params


def _pretrained(folder: Path | str) -> Any:
    from flax_transformer.huggingface.folder import read_folder  # its readers are needed here only

    return read_folder(folder)

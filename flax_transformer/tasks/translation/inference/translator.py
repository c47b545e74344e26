"""Lines of text in, translations out: one for each line, in order, whatever the line and its company."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax

from flax_transformer.common.compilation_cache import use_compilation_cache
from flax_transformer.common.errors import UserError
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.state import Hypotheses
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.marian.folder import read_marian
from flax_transformer.tasks.translation.inference.batch_runner import Runner
from flax_transformer.tasks.translation.inference.batching import shapes
from flax_transformer.tasks.translation.inference.ids import attend_ids, score_ids, translate_ids
from flax_transformer.tasks.translation.inference.lines import Line, prepare
from flax_transformer.tasks.translation.inference.loading import load_ensemble
from flax_transformer.tasks.translation.inference.n_best import best_of, make_translation
from flax_transformer.tasks.translation.inference.result import Translation, Translations, joined, with_flags
from flax_transformer.tasks.translation.inference.word_alignment import align_words
from flax_transformer.text.tokenizer import Tokenizer
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.model import Transformer
from flax_transformer.transformer.ops.int8 import to_int8

CHUNK = 2048  # lines of a stream that are in memory at once


class Translator:
    """`translator(lines)` translates lines of text. Compiles once for each length bucket and size of a batch."""

    def __init__(
        self,
        config: TransformerConfig | Sequence[TransformerConfig],
        params: Any,
        tokenizer: Tokenizer,
        decoding: DecodingConfig | None = None,
        *,
        parallel: ParallelConfig | None = None,
        source_language: str = 'en',
    ) -> None:
        """Of one model; or, with several configs and the tuple of their parameters, of an ensemble.

        Args:
          parallel: on which devices; None: on one.
          source_language: by whose rules split_sentences splits.
        """
        configs = (config,) if isinstance(config, TransformerConfig) else tuple(config)
        self.models = tuple(map(Transformer, configs))
        self.params = params
        self.tokenizer = tokenizer
        self.decoding = decoding or DecodingConfig()
        self.source_language = source_language
        self._parallel = parallel
        self._check_banned()
        tokenizer.tag_id(self.decoding.target_language)  # an unknown language is better refused now

    @classmethod
    def from_run(
        cls,
        path: Path | str,
        *others: Path | str,
        step: int | None = None,
        parallel: ParallelConfig | None = None,
        **decoding: Any,
    ) -> 'Translator':
        """The translator of a run directory: its best checkpoint, or that of `step`, or the mean of
        the newest where training.average_last says so; `RUN@12000`, `RUN@last`, `RUN@best` and `RUN@average` name
        others. With further runs, of the same tokenizer, an ensemble; the first one's settings count.

        `decoding` overrides fields of the run's DecodingConfig, such as beam_width=1.
        """
        use_compilation_cache()
        runs = load_ensemble((path, *others), step=step, **decoding)
        config, params, tokenizer = runs[0]
        settings = config.decoding
        if settings.target_language is None:
            settings = replace(settings, target_language=tokenizer.default_language(config.data.target_language))
        return cls(
            [run.config.model for run in runs],
            tuple(run.params for run in runs) if others else params,
            tokenizer,
            settings,
            parallel=parallel,
            source_language=config.data.source_language,
        )

    @property
    def model(self) -> Transformer:
        """The model; of an ensemble the first."""
        return self.models[0]

    @classmethod
    def from_marian(cls, folder: Path | str, **decoding: Any) -> 'Translator':
        """The translator of a Marian model in Hugging Face's format; `decoding` overrides what its settings ask for."""
        use_compilation_cache()
        config, params, tokenizer, own = read_marian(folder)
        return cls(config, params, tokenizer, replace(own, **decoding))

    def with_params(self, params: Any, *, target_language: str | None = None) -> 'Translator':
        """The same translator, compilations included, with other parameters of the same shapes."""
        decoding = replace(self.decoding, target_language=target_language or self.decoding.target_language)
        self.tokenizer.tag_id(decoding.target_language)
        other = object.__new__(Translator)
        # The language is in the ids, not in the program.
        changed = {'params': params, 'decoding': decoding, 'translate_ids': self.translate_ids, 'runner': self.runner}
        other.__dict__ |= self.__dict__ | changed
        other.__dict__.pop('weights', None)
        return other

    def with_decoding(self, decoding: DecodingConfig) -> 'Translator':
        """The same models with another search."""
        configs = [model.config for model in self.models]
        options = {'parallel': self._parallel, 'source_language': self.source_language}
        return Translator(configs, self.params, self.tokenizer, decoding, **options)

    @cached_property
    def weights(self) -> Any:
        """What the programs are given: `params`, or what decoding.weights makes of them."""
        return to_int8(self.params) if self.decoding.weights == 'int8' else self.params

    @cached_property
    def translate_ids(self) -> Callable[..., Hypotheses]:
        """`translate_ids(weights, source, prefix=None)`, jitted, with this translator's models and search.

        `weights` are this translator's, of int8 where that is asked for; or any parameters of such models.
        Pure: usable within other JAX programs (jit, vmap, export). See `forward.translate_ids`.
        """
        return jax.jit(
            partial(
                translate_ids,
                models=self.models,
                decoding=self.decoding,
                banned=(*self.tokenizer.tags_to_ban, *[self.tokenizer.unk_id] * self.decoding.ban_unk),
                banned_sequences=self._banned_sequences,
            )
        )

    @cached_property
    def _score_ids(self) -> Callable:
        return jax.jit(partial(score_ids, models=self.models, decoding=self.decoding))

    @cached_property
    def _attend_ids(self) -> Callable:
        return jax.jit(partial(attend_ids, models=self.models))

    @cached_property
    def runner(self) -> Runner:
        """What puts batches onto the devices; its num_compilations counts the programs."""
        decoding = self.decoding
        return Runner(decoding.batch_tokens, decoding.max_source_tokens, self.tokenizer.pad_id, self._parallel)

    @cached_property
    def _banned_sequences(self) -> tuple[tuple[int, ...], ...]:
        """The ids of banned_texts, as a word within a line and as its beginning are spelt."""
        spelt = self.tokenizer.encode_target(list(self.decoding.banned_texts))
        return tuple(tuple(ids[:-1]) for ids in spelt if len(ids) > 1)

    def __call__(
        self,
        lines: Sequence[str | bytes],
        *,
        prefixes: Sequence[str] | None = None,
        alignment: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Translations:
        """One translation for each line, in order; a blank one for a blank line, without asking the model.

        Args:
          lines: sentences, without line ends; bytes are read as UTF-8, what is not becomes U+FFFD and is flagged.
          prefixes: for each line what its translation begins with, or ''; such a line is not split.
          alignment: whether to say which source word each word comes from; a second pass.
          progress: called with the number of sentences of each finished batch.
        """
        if isinstance(lines, (str, bytes)):
            raise TypeError('got one string, expected a list of lines: translator([line])')
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(f'{len(prefixes)} prefixes, {len(lines)} lines; expected equal numbers')
        before = self.runner.num_compilations
        prepared = [self._prepare(line) for line in lines]
        if prefixes is not None:
            # A prefix is of the whole line.
            prepared = [
                Line(text, bad, '', [text] * bool(parts), [''] * bool(parts)) for text, bad, _, parts, _ in prepared
            ]
            prefixes = [prefix for prefix, line in zip(prefixes, prepared, strict=True) if line.parts]
        sources = self._encode([part for line in prepared for part in line.parts])
        translated = iter(zip(self._translate(sources, prefixes, alignment, progress), sources, strict=True))
        out = Translations()
        for line in prepared:
            found, ids = zip(*[next(translated) for _ in line.parts], strict=True) if line.parts else ((), ())
            out.append(with_flags(joined(found, line), line, [i for part in ids for i in part]))
        out.num_compilations = self.runner.num_compilations - before
        return out

    def stream(self, lines: Iterable[str | bytes], *, chunk: int = CHUNK, **options: Any) -> Iterator[Translation]:
        """As `translator(lines)`, for lines without end: `chunk` of them are in memory at once."""
        lines = iter(lines)
        while some := list(itertools.islice(lines, chunk)):
            yield from self(some, **options)

    async def stream_async(
        self, lines: Iterable[str | bytes], *, chunk: int = CHUNK, **options: Any
    ) -> AsyncIterator[Translation]:
        """As `stream`, for an event loop: the work runs in a thread of its own."""
        lines = iter(lines)
        while some := list(itertools.islice(lines, chunk)):
            for translation in await asyncio.to_thread(partial(self, some, **options)):
                yield translation

    def score(self, sources: Sequence[str], targets: Sequence[str], *, alignment: bool = False) -> Translations:
        """The given targets as translations of the sources: what they are worth, normalised as this search does.

        No line is split; a blank target is the empty translation.
        """
        if len(sources) != len(targets):
            raise ValueError(f'{len(sources)} sources, {len(targets)} targets; expected equal numbers')
        columns = self._encode(sources), self.tokenizer.encode_target(list(targets))
        self._check_slots(max((len(ids) for column in columns for ids in column), default=0))
        scored = self.runner.map(self._score_ids, self.weights, columns)
        links = self._links(*columns) if alignment else [None] * len(sources)
        out = Translations()
        for target, ids, (score, gains), link in zip(targets, columns[1], scored, links, strict=True):
            one = make_translation(self.tokenizer, ids, score, gains[: len(ids)], is_finished=True)
            out.append(replace(one, text=target, alignment=link))
        return out

    def warm_up(self) -> int:
        """Compiles, or loads, every shape that lines are translated in, and returns how many there are."""
        every = shapes(self.decoding.max_source_tokens, self.runner.batch_tokens, len(self.runner.devices))
        for rows, slots in every:
            self.runner.map(self.translate_ids, self.weights, [[[self.tokenizer.eos_id] * slots] * rows])
        return len(every)

    def _encode(self, sources: Sequence[str]) -> list[list[int]]:
        """Ids of source text: with the tag of the target language, where the model has tags."""
        return self.tokenizer.encode(list(sources), target_language=self.decoding.target_language)

    def _prepare(self, line: str | bytes) -> Line:
        count = lambda text: len(self._encode([text])[0])
        language = self.source_language if self.decoding.split_sentences else None
        return prepare(line, count, self.decoding.max_source_tokens, language)

    def _translate(
        self,
        sources: list[list[int]],
        prefixes: Sequence[str] | None,
        alignment: bool,
        progress: Callable[[int], None] | None,
    ) -> list[Translation]:
        columns = [sources]
        if prefixes is not None:
            columns.append([ids[:-1] for ids in self.tokenizer.encode_target(list(prefixes))])
        self._check_slots(*(max(map(len, column), default=0) for column in columns))
        found = self.runner.map(self.translate_ids, self.weights, columns, progress)
        best = [best_of(hypotheses, self.tokenizer, self.decoding) for hypotheses in found]
        if not alignment:
            return best
        links = self._links(sources, [list(translation.token_ids) for translation in best])
        return [replace(translation, alignment=link) for translation, link in zip(best, links, strict=True)]

    def _links(self, sources: list[list[int]], targets: list[list[int]]) -> list[tuple[tuple[int, int], ...]]:
        """The word alignment of each pair."""
        eos_id = self.tokenizer.eos_id
        tags = set(self.tokenizer.languages.values())
        source_piece = lambda i: '' if i in tags else self.tokenizer.source_piece(i)  # a tag is no word
        piece = self.tokenizer.piece
        weights = self.runner.map(self._attend_ids, self.weights, [sources, targets])
        return [
            align_words(seen, [source_piece(i) for i in source[:-1]], [piece(i) for i in target if i != eos_id])
            for seen, source, target in zip(weights, sources, targets, strict=True)
        ]

    def _check_slots(self, source: int, prefix: int = 0) -> None:
        """Learned positions bound the length of a line."""
        for model in self.models:
            config = model.config
            needed = source + prefix + (self.decoding.max_extra_tokens if prefix else 0)
            if config.positions == 'learned' and needed > config.max_length:
                raise UserError(
                    f'a line needs {needed} positions; the model has learned max_length={config.max_length}'
                )

    def _check_banned(self) -> None:
        size = self.models[0].config.vocab_size_of_target
        if any(i >= size for i in self.decoding.banned_ids):
            raise UserError(f'banned_ids={self.decoding.banned_ids}: expected ids below vocab_size={size}')

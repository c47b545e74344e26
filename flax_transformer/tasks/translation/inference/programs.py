"""What is compiled to translate: shared by translators that differ only in parameters or target language."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.common.errors import BadLine, UserError
from flax_transformer.common.fields import check_numbers
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import NEG_INF, Hypotheses
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.ops.batch_invariance import is_measured
from flax_transformer.ops.decoding_weights import for_decoding
from flax_transformer.ops.fastest_dtype import fastest_int8
from flax_transformer.ops.product import resolve_dtype
from flax_transformer.tasks.translation.model import TranslationModel, max_positions, require
from flax_transformer.text.tokenizer import UNSPACED, Tokenizer

from .batch_runner import Runner
from .ids import SpecialIds, attend_ids, score_ids, translate_ids

# Fields of a search that neither its programs nor their runner read, and those that the programs alone do not.
UNUSED = ('n_best', 'source_language', 'target_language', 'literals', 'noisy_channel')
UNREAD = (*UNUSED, 'batch_tokens', 'buckets', 'max_source_tokens')


class Programs:
    """The jitted functions of some models and a search, whose first argument is the weights, and their runner."""

    def __init__(
        self,
        models: Sequence[TranslationModel],
        tokenizer: Tokenizer,
        decoding: DecodingConfig,
        parallel: ParallelConfig | None = None,
    ) -> None:
        """Raises UserError if the search asks for what the models or the vocabulary lack."""
        size = tokenizer.target_vocab_size
        if any(i >= size for i in decoding.banned_ids):
            raise UserError(f'banned_ids={decoding.banned_ids}: expected ids below vocab_size={size}')
        self.banned = {
            *decoding.banned_ids,
            *tokenizer.tags_to_ban,
            *[tokenizer.unk_id] * decoding.ban_unk,
            *[tokenizer.pad_id] * decoding.ban_pad,
        }
        if self.banned.issuperset(range(size)):
            raise UserError(f'all {size} pieces are banned, by banned_ids, ban_unk, ban_pad or as tags')
        if decoding.coverage_penalty:
            require(models, 'decode_with_attention', 'decoding.coverage_penalty')
        if decoding.weights == 'int8':
            require(models, 'supports_int8', "decoding.weights='int8'")
        self.models = tuple(models)
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.parallel = parallel
        self.has_first = tokenizer.first_id(decoding.target_language) is not None  # every target begins with a tag
        start = getattr(self.models[0], 'start_id', None)
        self.special_ids = SpecialIds(tokenizer.pad_id, tokenizer.eos_id, start, int(self.has_first))
        self.max_positions = max_positions(models)  # None: any number
        # Whether the search can see where phrases belong; else they may stand anywhere.
        self.has_places = all(hasattr(model, 'decode_with_attention') for model in models)
        self.max_source_tokens = min(decoding.max_source_tokens, self.max_positions or decoding.max_source_tokens)

    def __reduce__(self) -> tuple[Any, ...]:  # another process compiles for itself
        return type(self), (self.models, self.tokenizer, self.decoding, self.parallel)

    @cached_property
    def translate_ids(self) -> Callable[..., Hypotheses]:
        """See `ids.translate_ids`.

        Raises UserError for ids beyond the vocabulary, unless it is called while another program is traced.
        """
        search = self._search()

        def checked(
            weights: Any, source: Any, prefix: Any = None, required: Any = None, places: Any = None
        ) -> Hypotheses:
            check_ids('source', source, self.tokenizer.vocab_size)
            check_ids('prefix', prefix, self.tokenizer.target_vocab_size)
            if self.has_first and prefix is None:
                tag = self.tokenizer.first_id(self.decoding.target_language)
                raise UserError(f'prefix: got none; expected the tag of the target language, [[{tag}], ...]')
            program = search if places is None else self._search_in_place
            return program(weights, source, prefix, required=required, places=places)

        return checked

    def _search(self, **options: Any) -> Callable[..., Hypotheses]:
        banned = {'banned': tuple(self.banned), 'banned_sequences': self.banned_sequences}
        return self._jitted(translate_ids, decoding=self.decoding, **banned, **options)

    @cached_property
    def _search_in_place(self) -> Callable[..., Hypotheses]:
        return self._search(glued=self.glued)

    @cached_property
    def translate_required(self) -> Callable[..., Hypotheses]:
        """`translate_ids` for a runner, whose last arrays are what is required and perhaps the places."""
        if self.decoding.search != 'beam' or self.decoding.beam_width < 2:
            got = f'search={self.decoding.search!r}, beam_width={self.decoding.beam_width}'
            raise UserError(f'required phrases and glossaries: got {got}; expected a beam of at least 2')

        def translate(weights: Any, source: jax.Array, *rest: jax.Array) -> Hypotheses:
            prefix = [ids for ids in rest if ids.ndim == 2]
            required = dict(zip(('required', 'places'), rest[len(prefix) :], strict=False))
            return self.translate_ids(weights, source, *prefix, **required)

        return translate

    @cached_property
    def score_ids(self) -> Callable[..., tuple[jax.Array, jax.Array]]:
        if self.decoding.coverage_penalty:
            require(self.models, 'cross_attention', 'decoding.coverage_penalty')
        return self._jitted(score_ids, decoding=self.decoding)

    @cached_property
    def attend_ids(self) -> Callable[..., jax.Array]:
        """Raises UserError for models that cannot."""
        require(self.models, 'cross_attention', 'word alignment')
        return self._jitted(attend_ids)

    def _jitted(self, function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        pure = partial(function, models=self.models, special_ids=self.special_ids, **settings)
        pure.__name__ = function.__name__
        return jax.jit(jax.numpy_dtype_promotion('standard')(pure))  # whatever the caller has set

    @cached_property
    def runner(self) -> Runner:
        search = {name: value for name, value in vars(self.decoding).items() if name not in UNREAD}
        settings = self.models, search, self.special_ids, sorted(self.banned), self.tokenizer.digest
        return Runner(
            self.decoding.batch_tokens,
            self.max_source_tokens,
            self.special_ids.pad_id,
            self.parallel,
            max_positions=self.max_positions,
            buckets=self.decoding.buckets,
            settings=repr(settings) if all(map(is_own, self.models)) else '',
        )

    @cached_property
    def glued(self) -> tuple[int, ...]:
        """The pieces that go on with a word, in scripts with spaces between words."""
        pieces = map(self.tokenizer.piece, range(self.tokenizer.target_vocab_size))
        return tuple(i for i, piece in enumerate(pieces) if piece[:1].isalnum() and not re.match(UNSPACED, piece))

    @cached_property
    def banned_sequences(self) -> tuple[tuple[int, ...], ...]:
        """The ids of banned_texts, spelled as words within a line and at its beginning."""
        encoded = self.tokenizer.encode_target(list(self.decoding.banned_texts))
        return tuple(tuple(ids[:-1]) for ids in encoded if len(ids) > 1)

    @cached_property
    def uses_int8(self) -> bool:
        """Whether matrices have eight bits: by decoding.weights; with `auto`, if that is faster and batch invariant."""
        if self.decoding.weights != 'auto':
            return self.decoding.weights == 'int8'
        are_invariant = all(getattr(model, 'supports_batch_invariance', False) for model in self.models)
        return are_invariant and is_measured() and fastest_int8() == 'uint8'

    def weights_of(self, params: Any, *, frees: bool = False) -> Any:
        """The parameters as products read them fastest, perhaps in int8.

        Those of foreign models stay as they are. `frees` deletes the matrices that were replaced.
        """
        if len(self.models) == 1:
            weights = self._weights_of(self.models[0], params, frees)
        else:
            weights = tuple(self._weights_of(*each, frees) for each in zip(self.models, params, strict=True))
        return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, weights)

    def _weights_of(self, model: TranslationModel, params: Any, frees: bool) -> Any:
        if not hasattr(model, 'supports_int8'):
            return params
        if self.uses_int8:
            dtype = fastest_int8() if is_own(model) else 'int8'
        else:
            dtype = resolve_dtype(model.config).dtype
        if dtype == 'float32' and not is_own(model):  # it may multiply by its kernels in its own way
            return params
        return for_decoding(params, dtype, frees=frees)

    def check_lengths(self, name: str, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Raises BadLine for a text of more tokens than the models have positions."""
        limit = self.max_positions
        for index, (text, tokens) in enumerate(zip(texts, ids, strict=True)):
            if limit is not None and len(tokens) > limit:
                begins = text if len(text) <= 60 else f'{text[:60]}...'
                got = f'the {name} {begins!r} has {len(tokens)} tokens'
                message = f'{got}; expected at most {limit}, the positions that the model has learned'
                raise BadLine(f'{name} {index + 1} of {len(texts)}', message, index)

    def check_numbers(self, params: Any, scores: Iterable[float]) -> None:
        """Raises UserError if the scores show that the parameters are not finite."""
        scores = list(scores)
        is_broken = any(map(math.isnan, scores))
        # A beam ranks NaN below everything and so finds nothing, as it also may under strict bans.
        if not is_broken and any(score <= NEG_INF for score in scores):
            is_broken = not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params))
        if is_broken:
            check_numbers(math.nan)


def is_own(model: TranslationModel) -> bool:
    """Whether a model is of this package."""
    return type(model).__module__.startswith('flax_transformer.')


def check_ids(name: str, ids: Any, size: int) -> None:
    """Raises UserError unless ids [B, slots], if they are known, are pieces of a vocabulary."""
    if ids is None or isinstance(ids, jax.core.Tracer):
        return
    ids = np.asarray(ids)
    if ids.ndim != 2 or ids.dtype.kind not in 'iu':
        raise UserError(f'{name}: got {ids.dtype} of shape {ids.shape}; expected integers of shape [sentences, slots]')
    wrong = ids[(ids < 0) | (ids >= size)].tolist()
    if wrong:
        raise UserError(f'{name} has the id {wrong[0]}; expected ids from 0 to {size - 1}, the vocabulary')

"""A translator that searches with CTranslate2: its own beam search, in float32 or int8."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.scorers import length_penalty
from flax_transformer.decoding.search import output_slots
from flax_transformer.interop.ctranslate2.conversion import check, converted, import_ctranslate2
from flax_transformer.tasks.translation.inference.result import Translation, distinct, make_translation
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.transformer.model import Transformer

ComputeType = Literal['float32', 'int8']


class CTranslate2Translator(Translator):
    """Lines in, lines out, like the Translator. CTranslate2's beam search has its own rules: probabilities sum to 1
    over what is not banned (as with decoding.renormalize), and tokens have no log-probabilities of their own."""

    def __init__(self, *args: Any, compute_type: ComputeType = 'float32', **options: Any) -> None:
        """The Translator's arguments, and `compute_type`.

        Raises UserError if the package is missing, and with every field that it cannot follow.
        """
        super().__init__(*args, **options)
        self.compute_type = compute_type
        if len(self.models) > 1:
            raise UserError(f'CTranslate2 cannot do this: an ensemble of {len(self.models)} runs; give one')
        if not isinstance(self.model, Transformer):
            raise UserError(f'CTranslate2 cannot do this: a {type(self.model).__name__}; expected a Transformer')
        check(self.model.config, self.decoding)
        import_ctranslate2()

    @classmethod
    def of(cls, translator: Translator, compute_type: ComputeType = 'float32') -> 'CTranslate2Translator':
        """The same model and search with CTranslate2; raises UserError as the constructor does."""
        return cls(
            translator.models,
            translator.params,
            translator.tokenizer,
            translator.decoding,
            source_language=translator.source_language,
            target_language=translator.target_language,
            programs=translator.programs,
            compute_type=compute_type,
        )

    def _like(self, params: Any, decoding: DecodingConfig, **options: Any) -> 'CTranslate2Translator':
        return super()._like(params, decoding, compute_type=self.compute_type, **options)

    @cached_property
    def engine(self) -> Any:
        """The `ctranslate2.Translator`; the model is converted when it is first needed."""
        config, decoding = self.model.config, self.decoding
        slots = max(decoding.max_source_tokens, output_slots(decoding, decoding.max_source_tokens)) + 1
        folder = converted(config, self.params, slots)
        return import_ctranslate2().Translator(str(folder), device='cpu', compute_type=self.compute_type)

    def _translate(
        self,
        sources: list[list[int]],
        prefixes: list[list[int]] | None,
        alignment: bool,
        progress: Callable[[int], None] | None,
    ) -> list[Translation]:
        if prefixes is not None or alignment:
            raise UserError(f'CTranslate2 cannot do this: {"prefixes" if prefixes is not None else "alignments"}')
        found: list[Any] = [None] * len(sources)
        for limit, chosen in self._by_limit(sources):
            results = self.engine.translate_batch(
                [list(map(str, sources[i])) for i in chosen], max_decoding_length=limit, **self._options
            )
            for i, result in zip(chosen, results, strict=True):
                found[i] = self._translation(result)
            if progress:
                progress(len(chosen))
        return found

    def _by_limit(self, sources: list[list[int]]) -> Iterator[tuple[int, list[int]]]:
        """Each limit on the output with the numbers of its sentences: a call of CTranslate2 has one limit."""
        groups = defaultdict(list)
        for i, ids in enumerate(sources):
            groups[output_slots(self.decoding, len(ids), max_positions=self.programs.max_positions)].append(i)
        yield from sorted(groups.items(), reverse=True)

    @cached_property
    def _options(self) -> dict[str, Any]:
        decoding, tokenizer = self.decoding, self.tokenizer
        banned = {*decoding.banned_ids, *tokenizer.tags_to_ban}
        banned |= {tokenizer.pad_id} if decoding.ban_pad else set()
        banned |= {tokenizer.unk_id} if decoding.ban_unk else set()
        sequences = [(i,) for i in sorted(banned)] + list(self.programs.banned_sequences)
        return {
            'beam_size': decoding.beam_width,
            'num_hypotheses': decoding.n_best,
            'length_penalty': decoding.alpha if decoding.length_penalty == 'power' else 0.0,
            'min_decoding_length': decoding.min_tokens,
            'no_repeat_ngram_size': decoding.no_repeat_ngram,
            'suppress_sequences': [list(map(str, sequence)) for sequence in sequences],
            'max_batch_size': decoding.batch_tokens,
            'batch_type': 'tokens',
            'max_input_length': 0,
            'return_scores': True,
            'return_end_token': True,
        }

    def _translation(self, result: Any) -> Translation:
        """The best of a result, with the n best if decoding.n_best asks for them."""
        eos_id, decoding, every = self.tokenizer.eos_id, self.decoding, []
        power = self._options['length_penalty']
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = list(map(int, tokens))
            is_finished = bool(ids) and ids[-1] == eos_id
            # CTranslate2 reports log-probability / length^alpha; `score` promises our own length penalty.
            log_prob = score * max(len(ids), 1) ** power
            worth = log_prob / float(length_penalty(len(ids), decoding.length_penalty, decoding.alpha))
            one = make_translation(self.tokenizer, ids, worth, (), is_finished=is_finished)
            every.append(replace(one, log_prob=log_prob))
        if self.decoding.n_best == 1:
            return every[0]
        n_best = distinct(every)
        return replace(n_best[0], n_best=n_best)

"""Our models in CTranslate2, and a Translator that searches with it: its own beam search, in float32 or int8.

Models are written from arrays, without torch and transformers. The pieces of their vocabularies are our ids as decimal
numbers.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from flax_transformer.common.compilation_cache import cache_folder
from flax_transformer.common.cores import num_cores
from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.common.installing import imported
from flax_transformer.common.trees import named_leaves
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.scorers import length_penalty
from flax_transformer.decoding.search import output_slots
from flax_transformer.huggingface.settings import PLAIN, even_heads, unexpected
from flax_transformer.tasks.translation.inference.asked import Asked
from flax_transformer.tasks.translation.inference.batch_runner import Program
from flax_transformer.tasks.translation.inference.result import Translation, distinct, make_translation
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import sinusoids
from flax_transformer.transformer.model import Transformer

ComputeType = Literal['float32', 'int8']
_MOST_LINES = 64  # of a batch in which several callers' lines are
_MOST_PLACES = 1 << 16  # times their slots squared

_package = partial(imported, 'ctranslate2', 'ctranslate2', 'the back end ctranslate2')
# Fields of DecodingConfig that must have their defaults.
WITHOUT_COUNTERPART = ('search', 'force_eos', 'word_reward', 'coverage_penalty', 'groups', 'mbr')


def check(config: TransformerConfig, decoding: DecodingConfig) -> None:
    expected = PLAIN | {
        'head_dim': even_heads(config),
        'attention_score': ['scaled_dot'],
        'norm': ['layer'],
        'pad_row': ['output', 'neither'],  # a decoder that starts from zero
    }
    expected |= {name: [getattr(TransformerConfig, name)] for name in ('embedding_norm', 'position_offset', 'start_id')}
    searches: dict[str, Any] = {name: [getattr(DecodingConfig, name)] for name in WITHOUT_COUNTERPART}
    searches['pass_over'] = ['nothing', 'loops']
    if decoding.beam_width > 1:
        searches['length_penalty'] = ['power', 'none']
    faults = unexpected(vars(config), expected, 'model.') + unexpected(vars(decoding), searches, 'decoding.')
    if decoding.weights == 'int8':
        faults.append(f"decoding.weights={decoding.weights!r}: expected 'float32', and --compute-type int8 for int8")
    refuse_faults('CTranslate2 cannot do this:', faults)


def converted(config: TransformerConfig, params: Any, slots: int) -> Path:
    """The cached folder of this model for CTranslate2, made if absent; no source or target is longer than `slots`."""
    version = _package().__version__
    digest = hashlib.sha256(f'1 {version} {slots} {config!r}'.encode())
    for name, leaf in named_leaves(params):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(leaf).tobytes())
    root = cache_folder().parent / 'ctranslate2'
    folder = root / digest.hexdigest()[:32]
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as made:
            write(Path(made) / 'model', config, params, slots)
            try:
                os.replace(Path(made) / 'model', folder)
            except OSError:  # another process was first
                if not folder.is_dir():
                    raise
    return folder


def write(folder: Path, config: TransformerConfig, params: Any, slots: int) -> None:
    specs = _package().specs
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), params)
    spec = specs.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm_first,
        activation=specs.Activation[config.activation.upper()],
    )

    _embeddings(spec, config, params)
    for side, name, positions in ((spec.encoder, 'encoder', 'source'), (spec.decoder, 'decoder', 'target')):
        side.scale_embeddings = np.float32(config.d_model**0.5 if config.scale_embedding else 1.0)
        if config.positions == 'learned':
            side.position_encodings.encodings = params[f'{positions}_positions']['table']
        else:
            side.position_encodings.encodings = sinusoids(slots, config.d_model, config.positions)
        for number, layer in enumerate(side.layer):
            _layer(layer, params[name][f'layers_{number}'])
        if config.norm_first:
            _norm(side.layer_norm, params[name]['final_norm'])

    spec.register_source_vocabulary([str(i) for i in range(config.vocab_size)])
    spec.register_target_vocabulary([str(i) for i in range(config.vocab_size_of_target)])
    eos = str(config.eos_id)
    # The unknown piece is never looked up; the decoder starts from the zero vector.
    for name in ('unk', 'bos', 'eos', 'decoder_start'):
        setattr(spec.config, f'{name}_token', eos)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def _embeddings(spec: Any, config: TransformerConfig, params: Any) -> None:
    decoder = spec.decoder
    is_shared = config.tie_embeddings == 'all'
    spec.encoder.embeddings[0].weight = params['embedding' if is_shared else 'source_embedding']['table']
    table = params['embedding' if is_shared else 'target_embedding']['table']
    decoder.embeddings.weight = table
    if config.tie_embeddings == 'none':
        decoder.projection.weight = np.ascontiguousarray(params['projection'].T)
    elif config.pad_row == 'neither':
        decoder.projection.weight = np.where(np.arange(len(table))[:, None] == config.pad_id, np.float32(0), table)
    else:
        decoder.projection.weight = table
    if config.logits_bias:
        decoder.projection.bias = params['logits_bias']
    decoder.start_from_zero_embedding = True


def _layer(spec: Any, params: Any) -> None:
    own = params['self_attention']
    _dense(spec.self_attention.linear[0], own['query'], own['key'], own['value'])
    _dense(spec.self_attention.linear[1], own['output'])
    _norm(spec.self_attention.layer_norm, params['self_residual']['norm'])
    if 'cross_attention' in params:
        cross = params['cross_attention']
        _dense(spec.attention.linear[0], cross['query'])
        _dense(spec.attention.linear[1], cross['key'], cross['value'])
        _dense(spec.attention.linear[2], cross['output'])
        _norm(spec.attention.layer_norm, params['cross_residual']['norm'])
    _dense(spec.ffn.linear_0, params['feed_forward']['inner'])
    _dense(spec.ffn.linear_1, params['feed_forward']['outer'])
    _norm(spec.ffn.layer_norm, params['feed_forward_residual']['norm'])


def _dense(spec: Any, *parts: Any) -> None:
    spec.weight = np.concatenate([part['kernel'].T for part in parts])
    if 'bias' in parts[0]:
        spec.bias = np.concatenate([part['bias'] for part in parts])


def _norm(spec: Any, params: Any) -> None:
    spec.gamma = params['scale']
    spec.beta = params['bias']


def batches_of(lengths: Sequence[int], workers: int, batch_tokens: int) -> dict[str, Any]:
    """What divides lines with these lengths into batches of at most `batch_tokens`: each worker gets a part.

    >>> batches_of([9] * 7, workers=2, batch_tokens=4096)
    {'batch_type': 'examples', 'max_batch_size': 4}
    """
    if workers == 1:
        return {'batch_type': 'tokens', 'max_batch_size': batch_tokens}
    most = min(-(-len(lengths) // workers), batch_tokens // max(lengths))
    return {'batch_type': 'examples', 'max_batch_size': max(most, 1)}


class CTranslate2Translator(Translator):
    """The Translator by CTranslate2's beam search, which has rules of its own.

    Probabilities sum to 1 over what is not banned (as with decoding.renormalize), tokens have no log-probabilities, a
    translation with a loop is not passed over, and decoding.noisy_channel changes nothing.
    """

    def __init__(self, *args: Any, compute_type: ComputeType = 'float32', **options: Any) -> None:
        super().__init__(*args, **options)
        self.compute_type = compute_type
        self.way_back = None  # lines that JAX has to search are ranked as CTranslate2 ranks the others
        if len(self.models) > 1:
            raise UserError(f'CTranslate2 cannot do this: an ensemble of {len(self.models)} runs; give one')
        if not isinstance(self.model, Transformer):
            raise UserError(f'CTranslate2 cannot do this: a {type(self.model).__name__}; expected a Transformer')
        check(self.model.config, self.decoding)
        _package()

    @classmethod
    def of(cls, translator: Translator, compute_type: ComputeType = 'float32') -> 'CTranslate2Translator':
        if translator.decoding.weights == 'auto':  # what CTranslate2 cannot do is translated as exactly
            translator = translator.with_decoding(replace(translator.decoding, weights='float32'))
        names = (
            'tokenizer',
            'decoding',
            'source_language',
            'target_language',
            'programs',
            'calibration',
            'pairs',
            'words',
        )
        same = {name: getattr(translator, name) for name in names}
        made = cls(translator.models, translator._params, compute_type=compute_type, **same)
        made._read = translator._read
        made.origin = translator.origin
        made.version = translator.version
        made.weights = translator.weights
        return made

    def _like(self, params: Any, decoding: DecodingConfig, **options: Any) -> 'CTranslate2Translator':
        other = super()._like(params, decoding, compute_type=self.compute_type, **options)
        if params is self._params and other.programs is self.programs:
            other.engine = self.engine  # converted once
        return other

    @cached_property
    def engine(self) -> Any:
        most = self.decoding.max_source_tokens
        folder = converted(self.model.config, self.params, max(most, output_slots(self.decoding, most)) + 1)
        threads = {'inter_threads': self._workers, 'intra_threads': 1 if self._workers > 1 else 0}
        return _package().Translator(str(folder), device='cpu', compute_type=self.compute_type, **threads)

    @property
    def _workers(self) -> int:
        """Batches translated at once; one has all cores, but not in int8, where MKL's threads are slower than one."""
        return num_cores() if self.compute_type == 'int8' else 1

    def engine_of(self, asked: Asked) -> str:
        is_plain = asked.prefixes is None and not asked.demands and not any(asked.alignment)
        return 'ctranslate2' if is_plain and self.decoding.n_best == 1 else 'jax'

    def most(self, slots: int, engine: str = 'jax') -> int:
        if engine == 'jax':
            return super().most(slots)
        return max(min(_MOST_PLACES // slots**2, _MOST_LINES), 1)

    def programs_for(self, *shape: Any, engine: str = 'jax', **options: Any) -> list[Program]:
        return [] if engine == 'ctranslate2' else super().programs_for(*shape, **options)

    def translate_parts(self, asked: Asked) -> list[Translation]:
        if self.engine_of(asked) == 'jax':
            return super().translate_parts(asked)

        sources = asked.sources
        translations: list[Any] = [None] * len(sources)
        positions = self.programs.max_positions
        limits = [output_slots(self.decoding, len(ids), max_positions=positions) for ids in sources]
        # A call of CTranslate2 has one limit on the output. Up to there the search is that with a lower one.
        left = list(range(len(sources)))
        limit = max(limits, default=0)
        while left:
            pieces = [list(map(str, sources[i])) for i in left]
            batches = batches_of(list(map(len, pieces)), self._workers, self.decoding.batch_tokens)
            results = self.engine.translate_batch(pieces, max_decoding_length=limit, **batches, **self._options)
            too_long = []
            for i, result in zip(left, results, strict=True):
                if limit > limits[i] and max(map(len, result.hypotheses)) >= limits[i]:
                    too_long.append(i)
                else:
                    translations[i] = self._translation(result)
            if asked.progress:
                asked.progress(len(left) - len(too_long))
            limit = max((limits[i] for i in too_long), default=0)
            left = too_long
        return translations

    @cached_property
    def _options(self) -> dict[str, Any]:
        decoding = self.decoding
        sequences = [(i,) for i in sorted(self.programs.banned)] + list(self.programs.banned_sequences)
        return {
            'beam_size': decoding.beam_width,
            'num_hypotheses': decoding.n_best,
            'length_penalty': decoding.alpha if decoding.length_penalty == 'power' else 0.0,
            'min_decoding_length': decoding.min_tokens - 1,  # without EOS
            'no_repeat_ngram_size': decoding.no_repeat_ngram,
            'suppress_sequences': [list(map(str, sequence)) for sequence in sequences],
            'max_input_length': 0,
            'return_scores': True,
            'return_end_token': True,
        }

    def _translation(self, result: Any) -> Translation:
        decoding = self.decoding
        power = self._options['length_penalty']
        hypotheses = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = list(map(int, tokens))
            is_finished = ids[-1:] == [self.tokenizer.eos_id]
            # CTranslate2's score is log-probability / length^alpha.
            log_prob = score * max(len(ids), 1) ** power
            worth = log_prob / float(length_penalty(len(ids), decoding.length_penalty, decoding.alpha))
            translation = make_translation(self.tokenizer, ids, worth, (), is_finished=is_finished)
            hypotheses.append(replace(translation, log_prob=log_prob))
        if decoding.n_best == 1:
            return hypotheses[0]
        n_best = distinct(hypotheses)
        return replace(n_best[0], n_best=n_best)

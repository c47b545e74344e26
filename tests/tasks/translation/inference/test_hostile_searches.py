"""What a hostile user asks of a search: an answer or an error by name, never blank lines or a traceback."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from drawn_params import drawn
from tiny_translation import MODEL

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig
from flax_transformer.decoding import transforms
from flax_transformer.decoding.problem import NEG_INF
from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import parameter_shapes


@pytest.fixture(scope='module')
def translator() -> Translator:
    """A model that has learned nothing."""
    tokenizer = SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=20, byte_fallback=False)
    config = replace(MODEL, vocab_size=tokenizer.vocab_size)
    return Translator(config, drawn(parameter_shapes(config)), tokenizer)


@pytest.mark.parametrize(
    'decoding', [{}, {'beam_width': 1}, pytest.param({'beam_width': 4, 'groups': 2}, marks=pytest.mark.slow)], ids=str
)
@pytest.mark.slow_cases('{}')
def test_parameters_that_are_not_numbers_are_refused(translator: Translator, decoding: dict) -> None:
    broken = jax.tree.map(lambda x: x * np.float32('nan'), translator.params)
    translator = translator.with_decoding(DecodingConfig(max_tokens=2, **decoding)).with_params(broken)
    with pytest.raises(UserError, match=r'the model computes no numbers \(NaN\): its parameters are damaged'):
        translator(['a b'])
    if not decoding:
        with pytest.raises(UserError, match=r'the model computes no numbers'):
            translator.score(['a b'], ['a'])
        assert translator(['']) == [Translation('', 0.0, 0.0, 0)]


def test_a_ban_of_every_piece_is_refused(translator: Translator) -> None:
    for banned in (range(20), set(range(20)) - {0, 2}):  # padding and the unknown piece are banned anyway
        with pytest.raises(UserError, match='all 20 pieces are banned'):
            translator.with_decoding(DecodingConfig(banned_ids=tuple(banned)))
    translator.with_decoding(DecodingConfig(banned_ids=tuple(set(range(20)) - {1})))
    translator.with_decoding(DecodingConfig(banned_ids=tuple(set(range(20)) - {2}), ban_unk=False))


def test_options_of_sampling_reach_their_limits() -> None:
    log_probs = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)
    log_probs[:, 5] = NEG_INF
    coldest = transforms.temperature(DecodingConfig(search='sample', temperature=1e-9).temperature)

    @jax.jit
    def both(log_probs: jax.Array) -> tuple[jax.Array, ...]:
        everything = transforms.top_k(10**12)(log_probs, None)  # more than the vocabulary, and than an int32
        cold = coldest(log_probs, None)
        return everything, cold, jax.random.categorical(jax.random.key(1), cold)

    everything, cold, chosen = both(log_probs)
    np.testing.assert_array_equal(everything, log_probs)
    assert np.isfinite(cold).all()
    np.testing.assert_array_equal(chosen, log_probs.argmax(axis=1))
    for temperature in (0.0, 1e-40):
        with pytest.raises(UserError, match=f'temperature={temperature}: expected'):
            DecodingConfig(temperature=temperature)

"""What a hostile user asks of a search: an answer or an error by name, never blank lines or a traceback."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from tiny_translation import MODEL

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig
from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import init_params


@pytest.fixture(scope='module')
def translator() -> Translator:
    """A model that has learned nothing."""
    tokenizer = SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=20, byte_fallback=False)
    config = replace(MODEL, vocab_size=tokenizer.vocab_size)
    return Translator(config, init_params(config, jax.random.key(0)), tokenizer)


@pytest.mark.parametrize('decoding', [{}, {'beam_width': 1}, {'beam_width': 4, 'groups': 2}], ids=str)
def test_parameters_that_are_not_numbers_are_refused(translator: Translator, decoding: dict) -> None:
    broken = jax.tree.map(lambda x: x * jnp.nan, translator.params)
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


def test_options_of_sampling_reach_their_limits(translator: Translator) -> None:
    options = {'search': 'sample', 'max_tokens': 3}
    sample = lambda **more: translator.with_decoding(DecodingConfig(**options, **more))(['a b'])[0]
    everything = sample()
    assert sample(top_k=10**12) == everything  # more than the vocabulary, and than an int32
    coldest = sample(temperature=1e-9)
    assert coldest.token_ids == sample(top_k=1).token_ids
    for temperature in (0.0, 1e-40):
        with pytest.raises(UserError, match=f'temperature={temperature}: expected'):
            DecodingConfig(temperature=temperature)

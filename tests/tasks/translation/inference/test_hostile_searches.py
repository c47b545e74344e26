"""What a hostile user asks of a search: an answer or an error by name, never blank lines or a traceback."""

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
    return Translator(MODEL, init_params(MODEL, jax.random.key(0)), tokenizer)


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

"""A translator of two languages, with tags, whose model has learned nothing."""

from typing import Any

import jax
import jax.numpy as jnp
from drawn_params import drawn

from flax_transformer import Translator
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import parameter_shapes


def tagged_translator(decoding: DecodingConfig, **options: Any) -> Translator:
    tokenizer = SentencePieceTokenizer.train(
        ['a b c d e f g h'] * 50, vocab_size=22, byte_fallback=False, languages=['de', 'fr'], character_coverage=1.0
    )
    config = TransformerConfig(
        vocab_size=22, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1
    )
    params = jax.tree.map(jnp.asarray, drawn(parameter_shapes(config)))
    return Translator(config, params, tokenizer, decoding, **options)

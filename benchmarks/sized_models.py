"""The models of `workload.Size`, ours and transformers' Marian; each function wants its own package alone."""

from typing import Any

from workload import EOS, PAD, Size


def our_config(size: Size, **fields: Any):
    from flax_transformer.config import TransformerConfig

    return TransformerConfig(
        vocab_size=size.vocab_size,
        d_model=size.d_model,
        d_ff=size.d_ff,
        num_heads=size.num_heads,
        num_encoder_layers=size.layers,
        num_decoder_layers=size.layers,
        pad_id=PAD,
        eos_id=EOS,
        **fields,
    )


def marian_config(size: Size, **fields: Any):
    """Its padding is the last id."""
    from transformers import MarianConfig

    pad = size.vocab_size - 1
    return MarianConfig(
        vocab_size=size.vocab_size,
        d_model=size.d_model,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        activation_function='relu',
        scale_embedding=True,
        init_std=size.d_model**-0.5,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        **fields,
    )

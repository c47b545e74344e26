"""The config whose variants the ablations are: Transformer-Tiny (Wu et al. 2021) on the text of multi30k_en_de_tok.

It has far fewer steps than multi30k_en_de_tok, and stands apart from it, so that a better config there changes no row.
"""

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TrainingConfig,
    TransformerConfig,
)


def get_config() -> Config:
    return Config(
        model=TransformerConfig(
            vocab_size=4000, d_model=128, num_heads=4, d_ff=256, num_encoder_layers=4, num_decoder_layers=4
        ),
        data=DataConfig(
            train='multi30k/tok_lc/train.lc.norm.tok.{lang}',
            validation='multi30k/tok_lc/val.lc.norm.tok.{lang}',
            test='multi30k/tok_lc/test_2016_flickr.lc.norm.tok.{lang}',
            bleu_tokenizer='none',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(name='muon', schedule='linear', learning_rate=4e-3, warmup_steps=150),
        training=TrainingConfig(steps=1500, tokens_per_step=2048, evaluate_every=1000, checkpoint_every=500),
        decoding=DecodingConfig(beam_width=5, length_penalty='power', alpha=1.0, max_source_tokens=64),
    )

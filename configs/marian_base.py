"""Multi30k, English to German, by a model that Hugging Face's Marian format can hold.

    flax-transformer train marian_base --workdir runs/marian
    flax-transformer export-huggingface runs/marian marian-en-de

Hardware: two CPU cores (x86-64 with AVX-512), busy with much other work. Time: 17 minutes. Score: 26.8 BLEU
with beam 4 on the first 200 lines of test_2016_flickr (sacreBLEU's defaults; one run, seed 0). From the export,
transformers translates 199 of these lines exactly as we do, and CTranslate2 197.
"""

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)


def get_config() -> Config:
    return Config(
        model=TransformerConfig(
            vocab_size=4000,
            d_model=128,
            num_heads=4,
            d_ff=512,
            num_encoder_layers=3,
            num_decoder_layers=3,
            # Fixed by Marian; activation, dropout, depths and sizes are free.
            positions='concatenated',
            norm_epsilon=1e-5,
            attention_bias=True,
            logits_bias=True,
            pad_row='neither',
            # CTranslate2 expects padding last; EOS and unk are where OPUS-MT has them.
            pad_id=3999,
            eos_id=0,
            activation='swish',
        ),
        tokenizer=TokenizerConfig(unk_id=1),
        data=DataConfig(
            source_language='en',
            target_language='de',
            train='multi30k/train.{lang}.gz',
            validation='multi30k/val.{lang}',
            test='multi30k/test_2016_flickr.{lang}',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(schedule='linear', learning_rate=2e-3, warmup_steps=300, ema_decay=0.99),
        training=TrainingConfig(
            steps=1500, tokens_per_step=1280, log_every=100, evaluate_every=500, checkpoint_every=500
        ),
        decoding=DecodingConfig(
            length_penalty='power', alpha=1.0, max_tokens=100, force_eos=True, renormalize=True, max_source_tokens=64
        ),
    )

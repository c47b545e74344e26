"""WMT 2014 English to German, the paper's big model (Vaswani et al. 2017, table 3, row "big").

    flax-transformer train wmt14_en_de_big --workdir runs/wmt14_big

Data and batches as in wmt14_en_de_base.py. We have not run this: we had neither the corpus nor the hardware. The paper
trained 300,000 steps in 3.5 days on eight P100s and reports 28.4 BLEU (tokenized) on newstest2014, averaging the last
twenty checkpoints. This model has 214.2 M parameters where the paper prints 213.
"""

from flax_transformer.config import Config, DataConfig, DecodingConfig, TrainingConfig, TransformerConfig


def get_config() -> Config:
    return Config(
        model=TransformerConfig(vocab_size=37_000, d_model=1024, num_heads=16, d_ff=4096, dropout_rate=0.3),
        data=DataConfig(
            source_language='en',
            target_language='de',
            train='tfds:wmt14_translate/de-en:train',
            validation='tfds:wmt14_translate/de-en:validation',
            test='tfds:wmt14_translate/de-en:test',
        ),
        training=TrainingConfig(steps=300_000, tokens_per_step=192 * 128, keep_last=20, average_last=20),
        decoding=DecodingConfig(max_source_tokens=128),
    )

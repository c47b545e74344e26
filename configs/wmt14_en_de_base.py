"""WMT 2014 English to German, the paper's base model (Vaswani et al. 2017, table 3, row "base").

    flax-transformer train wmt14_en_de_base --workdir runs/wmt14_base

The data comes from TensorFlow Datasets and must be prepared once (training prints the command). Batches follow
section 5.1: about 25,000 target tokens over all devices together, however many there are. Pairs of more than 128 tokens
a side are left out, and counted. Rows of 256 (--data.source-length 256 --data.target-length 256) keep nearly all, but
then plain attention's scores alone are a quarter of what a step reads and writes.

We have not run this: we had neither the corpus nor the hardware. The paper trained 100,000 steps in 12 hours on eight
P100s and reports 27.3 BLEU (tokenized) on newstest2014, averaging the last five checkpoints. This model has 63.0 M
parameters where the paper prints 65: 37,000 pieces in the shared vocabulary, no biases in the attention projections.
"""

from flax_transformer.config import Config, DataConfig, DecodingConfig, TrainingConfig, TransformerConfig


def get_config() -> Config:
    return Config(
        model=TransformerConfig(vocab_size=37_000),
        data=DataConfig(
            source_language='en',
            target_language='de',
            train='tfds:wmt14_translate/de-en:train',
            validation='tfds:wmt14_translate/de-en:validation',
            test='tfds:wmt14_translate/de-en:test',
        ),
        training=TrainingConfig(steps=100_000, tokens_per_step=192 * 128, keep_last=5, average_last=5),
        decoding=DecodingConfig(max_source_tokens=128),
    )

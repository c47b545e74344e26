"""Multi30k, English to German, as Wu et al. 2021 train and score it: a model of 3.9 M parameters.

    flax-transformer train multi30k_en_de_tok --workdir runs/multi30k_tok

The text is lower-cased, normalized and tokenized by Moses' scripts, and so are translations and references when BLEU is
computed (sacreBLEU, tok:none): such scores cannot be compared with those of multi30k_en_de. The files are found in
--data.root, else $FLAX_TRANSFORMER_DATA, else data/: multi30k/tok_lc/train.lc.norm.tok.en and so on
(github.com/multi30k/dataset, data/task1/tok); `flax-transformer prepare multi30k` downloads them.

The setting is that of Transformer-Tiny in "Good for Misconceived Reasons: An Empirical Revisiting on the Need for
Visual Context in Multimodal Machine Translation" (arXiv 2105.14462), with its heads, dropout, label smoothing and beam.
What differs: 3 + 3 layers of d_model 192 and d_ff 768 instead of 4 + 4 of 128 and 256, 4,000 SentencePiece pieces
instead of 10,000 merges, Muon with weight decay instead of Adam without, a rate that falls linearly to zero, and so no
averaging of checkpoints; steps of 2,048 packed target slots instead of 8,192 tokens, and no early stopping. The length
penalty was chosen on the validation set.

Scores, time and hardware: RESULTS.md.
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
            vocab_size=4000,
            d_model=192,
            num_heads=4,
            d_ff=768,
            num_encoder_layers=3,
            num_decoder_layers=3,
            dropout_rate=0.3,
        ),
        data=DataConfig(
            source_language='en',
            target_language='de',
            train='multi30k/tok_lc/train.lc.norm.tok.{lang}',
            validation='multi30k/tok_lc/val.lc.norm.tok.{lang}',
            test='multi30k/tok_lc/test_2016_flickr.lc.norm.tok.{lang}',
            bleu_tokenizer='none',
            source_length=64,
            target_length=64,
        ),
        optimizer=OptimizerConfig(
            name='muon', schedule='linear', learning_rate=5e-3, warmup_steps=500, weight_decay=0.1
        ),
        training=TrainingConfig(
            steps=8000, tokens_per_step=2048, log_every=100, evaluate_every=1000, checkpoint_every=500
        ),
        decoding=DecodingConfig(beam_width=5, length_penalty='power', alpha=1.3, max_source_tokens=64),
    )

"""Multi30k, English to German, with an attention RNN of 3.7 M parameters; text and scores as in multi30k_en_de_tok.

    flax-transformer train multi30k_en_de_rnn --workdir runs/multi30k_rnn

Its sizes are those of Caglayan et al. 2017 ("LIUM-CVC Submissions for WMT17 Multimodal Translation Task"): a
bidirectional GRU reads, a GRU with attention writes, 320 hidden values, embeddings of 200, the target's tied. What
differs: one table for both sides, 4,000 SentencePiece pieces, and a decoder of one cell instead of two.

Hardware: two CPU cores (x86-64 with AVX-512), shared with other work. Time: 0.29 s a step if quiet, 39 minutes.
Scores: test_2016_flickr 36.69 BLEU, validation 37.05 (sacreBLEU, tok:none), beam 5. One run, seed 0.
"""

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    RecurrentConfig,
    TrainingConfig,
)


def get_config() -> Config:
    return Config(
        model=RecurrentConfig(vocab_size=4000, cell='gru', d_model=200, hidden_size=320, dropout_rate=0.35),
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
            schedule='linear', learning_rate=2e-3, warmup_steps=400, clip_norm=1.0, ema_decay=0.999
        ),
        training=TrainingConfig(
            steps=8000, tokens_per_step=1280, log_every=100, evaluate_every=500, checkpoint_every=500
        ),
        decoding=DecodingConfig(beam_width=5, alpha=1.0, max_source_tokens=64),
    )

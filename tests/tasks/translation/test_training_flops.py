"""FLOPs of a training step, against those of the forward pass."""

from dataclasses import replace

from flax_transformer.common.config_files import load_config
from flax_transformer.config import Config, DataConfig, TrainingConfig, TransformerConfig
from flax_transformer.tasks.translation.task import TranslationTask
from flax_transformer.transformer.flops import forward_flops

MODEL = TransformerConfig(vocab_size=50, d_model=16, num_heads=4, d_ff=24, num_encoder_layers=2, num_decoder_layers=3)


def test_a_step_counts_all_rows_three_times() -> None:
    config = Config(
        model=MODEL, data=DataConfig(source_length=7, target_length=5), training=TrainingConfig(tokens_per_step=40)
    )
    row = forward_flops(MODEL, 7, 5).total
    assert TranslationTask(config).flops_per_step == 3 * 8 * row
    twice = replace(config, training=replace(config.training, r_drop_alpha=1.0))
    assert TranslationTask(twice).flops_per_step == 2 * 3 * 8 * row


def test_big_is_some_six_flops_for_each_weight_that_multiplies() -> None:
    """The rule of thumb, 6 FLOPs for each parameter and token, must be near: here a token is a pair of slots."""
    config = load_config('wmt14_en_de_big')
    assert 1.0 < TranslationTask(config).flops_per_step / config.training.tokens_per_step / (6 * 214.2e6) < 1.2

"""How much one training step of a translation model computes, counted from its config (see `transformer.flops`)."""

from flax_transformer.tasks.translation.config import Config
from flax_transformer.transformer.flops import Flops, forward_flops


def training_flops(config: Config) -> Flops:
    """Of one training step, over all its rows and devices: forward and backward; with R-Drop twice."""
    forward = forward_flops(config.model, config.data.source_length, config.data.target_length)
    passes = 2 if config.training.r_drop_alpha else 1
    return forward.times(3 * passes * config.rows_per_step)


def training_flops_per_token(config: Config) -> float:
    """Of a training step for each target slot: the source slots of its row, and all attention, are its share.

    Times the target slots of a second this is what the devices compute. Times its real target tokens it is what they
    compute to a purpose: the slots that packing leaves empty count as lost.
    """
    return training_flops(config).total / config.training.tokens_per_step

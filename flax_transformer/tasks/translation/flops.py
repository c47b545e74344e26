"""FLOPs of a training step of a translation model, counted from its config (see `transformer.flops`)."""

from flax_transformer.tasks.translation.config import Config
from flax_transformer.transformer.flops import Flops, forward_flops


def training_flops(config: Config) -> Flops:
    """FLOPs of one training step over all rows and devices, forward and backward; with R-Drop, of both passes."""
    forward = forward_flops(config.model, config.data.source_length, config.data.target_length)
    passes = 2 if config.training.r_drop_alpha else 1
    return forward.times(3 * passes * config.rows_per_step)


def training_flops_per_token(config: Config) -> float:
    """FLOPs of a training step per target slot, which includes a share of its row's source slots and attention.

    Times target slots per second: what the devices compute. Times real target tokens per second: what of it is useful,
    counting slots that packing leaves empty as lost.
    """
    return training_flops(config).total / config.training.tokens_per_step

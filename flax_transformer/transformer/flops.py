"""How much a model computes: the FLOPs of its matrix products, counted from the config alone.

A multiplication and an addition are two FLOPs. Counted are the products of the model as the paper writes it: the
projections, the feed-forward networks, queries x keys and weights x values, and the logits. Not counted are softmax,
norms, activations, dropout and the optimiser (a few per cent of a step, and no work for matrix units), nor what is
computed twice to save memory. So FLOPs/s over a chip's peak is what PaLM calls model FLOPs utilisation (Chowdhery et
al. 2022, appendix B).

Every slot of a row counts, padding too, and attention over the whole row, what masks hide too: that is what is
computed. The backward pass has two products for each of the forward pass.
"""

from typing import NamedTuple

from flax_transformer.transformer.config import TransformerConfig


class Flops(NamedTuple):
    """FLOPs by part."""

    encoder: float  # projections and feed-forward networks, linear in the source slots
    decoder: float  # the same; the keys and values of the source are projected here
    attention: float  # queries x keys and weights x values, over all three attentions: quadratic in the slots of a row
    logits: float

    @property
    def total(self) -> float:
        return sum(self)

    def times(self, factor: float) -> 'Flops':
        return Flops(*(factor * part for part in self))


def forward_flops(model: TransformerConfig, source: int, target: int) -> Flops:
    """Of the forward pass over one row of so many source and target slots."""
    width = model.num_heads * model.width_of_head
    projection = 2 * model.d_model * width  # of one slot: query, key, value or output
    feed_forward = 4 * model.d_model * model.d_ff
    seen_by_source, seen_by_target = source, target + source  # keys of all attentions of a layer
    return Flops(
        encoder=model.num_encoder_layers * source * (4 * projection + feed_forward),
        decoder=model.num_decoder_layers * (target * (6 * projection + feed_forward) + source * 2 * projection),
        attention=4
        * width
        * (model.num_encoder_layers * source * seen_by_source + model.num_decoder_layers * target * seen_by_target),
        logits=target * 2 * model.d_model * model.vocab_size_of_target,
    )
